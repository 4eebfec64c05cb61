package mcpserver

// The functions of gatewayhook.Hooks, for tests.
var (
	RelayTool     = relayTool
	RelayResource = relayResource
	RelayTemplate = relayTemplate
	RelayPrompt   = relayPrompt
	RelayOthers   = relayOthers
)

// LetMiddlewareWait is gatewayhook.Hooks.LetMiddlewareWait if on.
func (o *Options) LetMiddlewareWait(on bool) *Options {
	o.middlewareWaits = on
	return o
}
