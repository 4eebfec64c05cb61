package setup

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/consent"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Configured is a server as "mcp ls" shows it.
type Configured struct {
	Name    string `json:"name"`
	Command string `json:"command,omitempty"`
	URL     string `json:"url,omitempty"`
	// Reach is all that is started, contacted or sent, in parts.
	Reach    []string `json:"reach"`
	File     string   `json:"file,omitempty"`
	Hash     string   `json:"hash,omitempty"` // of the definition, what consent is bound to
	Status   string   `json:"status"`         // ready to start: approved, named, yours; else pending, disabled, unusable
	Trusted  bool     `json:"trusted"`
	Login    *Login   `json:"login,omitempty"` // of a server at a URL
	Error    string   `json:"error,omitempty"`
	approved bool
}

// Describe says how it stands with a server.
func (f *ServerFlags) Describe(ctx context.Context, s store.Approvals, def *mcpclient.Server) (Configured, error) {
	c := Configured{Name: def.Name, URL: def.Address(), Reach: reachOf(def), File: def.File, Hash: def.Hash, Trusted: def.Trusted, Status: "named"}
	if def.URL == "" {
		c.Command = def.CommandLine()
	}
	if def.File != "" {
		a, ok, err := consent.Of(ctx, s, def)
		if err != nil {
			return c, err
		}
		c.approved = ok || Own(def)
		c.Trusted = c.Trusted || a.Trusted
		switch {
		case ok:
			c.Status = "approved"
		case Own(def):
			c.Status = "yours"
		case !f.named():
			c.Status = "pending"
		}
	}
	switch {
	case def.Err != nil:
		c.Status, c.Error = "unusable", def.Err.Error()
	case def.Disabled:
		c.Status = "disabled"
	}
	return c, nil
}

// ApprovalOf is the consent of this user to start a server as it is defined now.
func ApprovalOf(def *mcpclient.Server, trust bool) store.Approval {
	return store.Approval{File: def.File, Server: def.Name, Hash: def.Hash, Shown: clip.Text(Reach(def), store.MaxText), By: env.UserName(), Trusted: trust}
}

// takeOverTrust marks the servers that the user trusts by a recorded approval, as
// --trust does.
func (f *ServerFlags) takeOverTrust(ctx context.Context, s store.Approvals, servers []mcpclient.Server) error {
	for i := range servers {
		c, err := f.Describe(ctx, s, &servers[i])
		if err != nil {
			return fmt.Errorf("looking for the approval of the server %s: %w", servers[i].Name, err)
		}
		servers[i].Trusted = c.Trusted
	}
	return nil
}

// MayStart refuses a server of a file without the consent of the user.
func (f *ServerFlags) MayStart(ctx context.Context, s store.Approvals, def *mcpclient.Server) error {
	c, err := f.Describe(ctx, s, def)
	if err != nil {
		return err
	}
	def.Trusted = c.Trusted
	if def.File == "" || c.approved || f.named() {
		return nil
	}
	if def.Err != nil { // nothing can be approved before it is mended
		return env.Usagef("%w", def.Err)
	}
	does := "run this program on this computer, with all that you may do here:" // SEC-20
	switch {
	case def.URL == "":
	case def.RunsHere():
		does = "run a program on this computer, with all that you may do here, and contact"
	default:
		does = "contact"
	}
	return env.ExitWith(env.ExitDenied, fmt.Errorf("the server %s of %s is not approved. It would %s\n  %s\nApprove it with: troupe mcp approve %[1]s",
		def.Name, def.File, does, ReachLines(def)))
}
