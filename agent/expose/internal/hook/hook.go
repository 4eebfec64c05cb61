// Package hook has the functions of package mcpserver that serve a gateway only.
package hook

import (
	"github.com/troupe-dev/troupe/internal/gatewayhook"
	"github.com/troupe-dev/troupe/mcpserver"
)

// Server are the functions, see [gatewayhook.Hooks].
var Server = gatewayhook.Get[*gatewayhook.Hooks[
	mcpserver.Options, mcpserver.Server, mcpserver.Principal, mcpserver.ToolRequest,
	mcpserver.ResourceRequest, mcpserver.PromptRequest, mcpserver.CompleteRequest, mcpserver.Question,
]]()
