package setup

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Configured is a server as "mcp ls" shows it.
type Configured struct {
	Name     string `json:"name"`
	Command  string `json:"command,omitempty"`
	URL      string `json:"url,omitempty"`
	File     string `json:"file,omitempty"`
	Hash     string `json:"hash,omitempty"` // of the definition, what consent is bound to
	Status   string `json:"status"`         // ready to start: approved, named, yours; else pending, disabled, unusable
	Trusted  bool   `json:"trusted"`
	Login    *Login `json:"login,omitempty"` // of a server at a URL
	Error    string `json:"error,omitempty"`
	approved bool
}

// Describe says how it stands with a server.
func (f *ServerFlags) Describe(ctx context.Context, s store.Approvals, def *mcpclient.Server) (Configured, error) {
	c := Configured{Name: def.Name, Command: def.CommandLine(), URL: def.URL, File: def.File, Hash: def.Hash, Trusted: def.Trusted, Status: "named"}
	if def.URL != "" {
		c.Command = ""
	}
	if def.File != "" {
		a, ok, err := s.Approved(ctx, def.File, def.Name, def.Hash)
		if err != nil {
			return c, err
		}
		c.approved = ok || own(def)
		c.Trusted = c.Trusted || a.Trusted
		switch {
		case ok:
			c.Status = "approved"
		case own(def):
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
	return store.Approval{File: def.File, Server: def.Name, Hash: def.Hash, Shown: Reach(def), By: env.UserName(), Trusted: trust}
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
	does := "run this program on this computer, with all that you may do here:" // SEC-20
	switch {
	case def.URL == "":
	case len(def.Runs()) > 0:
		does = "run a program on this computer, with all that you may do here, and contact"
	default:
		does = "contact"
	}
	return env.ExitWith(env.ExitDenied, fmt.Errorf("the server %s of %s is not approved. It would %s\n  %s\nApprove it with: troupe mcp approve %[1]s",
		def.Name, def.File, does, env.Plain(Reach(def))))
}
