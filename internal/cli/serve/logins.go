// logins.go: whose logins are used at the servers behind. A principal has its own; the token of a
// client is never passed on.

package serve

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/shellwords"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/mcpserver"
)

// loginPatience is how long a call of a principal waits for a login: its client is told then.
const loginPatience = 2 * time.Second

// logins are those of the principals, whose connections come and go. They end with the runtime.
type logins struct {
	env *env.Env
	o   *setup.Opened

	mu  sync.Mutex // guards all, between goroutines that open connections, each for an instant
	all map[string]*auth.Authorizer
}

// nameOf is what a principal is called on the command line; empty for one who is not told apart from
// the user of this machine.
func nameOf(p *mcpserver.Principal) string {
	switch {
	case p.Issuer != "":
		return p.Issuer + " " + p.Subject
	case p.Subject != "":
		return p.Subject
	}
	return ""
}

// of returns what authorizes a principal.
func (l *logins) of(p *mcpserver.Principal) (mcpclient.Authorizer, error) {
	name := nameOf(p)
	if name == "" {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.all[name]
	if a == nil {
		var err error
		if a, err = setup.OpenAuthorizer(l.env, l.o.Store, l.o.Servers, setup.AuthorizerOptions{Principal: name, Patience: loginPatience, System: l.o.Runtime.System()}); err != nil || a == nil {
			return nil, err
		}
		if l.all == nil {
			l.all = make(map[string]*auth.Authorizer)
		}
		l.all[name] = a
	}
	return &ownLogins{a, name}, nil
}

// ownLogins authorizes one principal, and says how it logs in.
type ownLogins struct {
	*auth.Authorizer
	principal string
}

// For implements [mcpclient.Authorizer].
func (o *ownLogins) For(s *mcpclient.Server) (mcpclient.Auth, error) {
	a, err := o.Authorizer.For(s)
	if a == nil || err != nil {
		return nil, err
	}
	return &ownLogin{a, shellwords.Join([]string{"troupe", "mcp", "login", s.Name, "--for", o.principal})}, nil
}

type ownLogin struct {
	mcpclient.Auth
	command string
}

// Denied implements [mcpclient.Auth].
func (o *ownLogin) Denied(ctx context.Context, req *http.Request, status int, header http.Header) (again bool, err error) {
	if again, err = o.Auth.Denied(ctx, req, status, header); err != nil {
		err = fmt.Errorf("%w; on the machine of the gateway: %s", err, o.command)
	}
	return again, err
}
