package setup

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// CallExit is the exit code for a request without a result: the server's own error is
// a failure, everything else means that it cannot be reached. What it sends may be
// no answer in the sense of the protocol: that is no error of its own.
func CallExit(err error) int {
	switch {
	case errors.Is(err, env.ErrTimeout):
		return env.ExitTimeout
	case errors.Is(err, call.ErrInvalidResponse):
		return env.ExitUnreachable
	case errors.As(err, new(*mcp.Error)), errors.Is(err, mcpclient.ErrUnknownTool), errors.Is(err, mcpclient.ErrUnsupported),
		errors.Is(err, mcpclient.ErrSkillChanged):
		return env.ExitFailed
	}
	return env.ExitUnreachable
}

// CallError is the error of a request without a result, with its exit code; nil for nil.
func CallError(err error) error { return env.ExitWith(CallExit(err), err) }

// AllServers collects the servers of the flags, those included that are not used.
func AllServers(e *env.Env, f *ServerFlags) ([]mcpclient.Server, error) {
	g := *f
	g.KeepDisabled = true
	return ServersOf(e, &g)
}

// Pick returns the servers that are named, or all.
func Pick(e *env.Env, f *ServerFlags, names []string) ([]mcpclient.Server, error) {
	servers, err := ServersOf(e, f)
	if err != nil || len(names) == 0 {
		if err == nil && len(servers) == 0 {
			err = env.Usagef("no server is configured: name one with --mcp or --mcp-config, or write a %s", ProjectFile)
		}
		return servers, err
	}
	var picked []mcpclient.Server
	for _, name := range names {
		i := slices.IndexFunc(servers, func(s mcpclient.Server) bool { return s.Name == name })
		if i < 0 {
			return nil, NoServer(name, servers)
		}
		picked = append(picked, servers[i])
	}
	return picked, nil
}

// WithClient connects to a server, as far as it may be started, and closes it after use.
func WithClient(ctx context.Context, e *env.Env, f *ServerFlags, s store.Store, def mcpclient.Server, use func(*mcpclient.Client) error) (err error) {
	if err := f.MayStart(ctx, s, &def); err != nil {
		return err
	}
	log, err := e.Logger()
	if err != nil {
		return err
	}
	authorizer, err := OpenAuthorizer(e, s, []mcpclient.Server{def}, AuthorizerOptions{Patience: time.Millisecond})
	if err != nil {
		return err
	}
	opts := &mcpclient.Options{
		Logger:     log,
		Consent:    func(context.Context, mcpclient.Server) error { return nil }, // given above
		AskOptions: e.AskOptions(),
	}
	if authorizer != nil {
		opts.Authorizer = authorizer
		defer func() { err = errors.Join(LoginError(def.Name, err), authorizer.Close()) }()
	}
	client, err := mcpclient.Dial(ctx, def, opts)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return env.ExitWith(env.ExitUnreachable, err)
	}
	defer func() {
		if cerr := client.Close(); err == nil {
			err = cerr
		}
	}()
	return use(client)
}

// maxStarting bounds the servers that are started and asked at the same time.
const maxStarting = 8

// AFewAtATime calls do with 0 to n-1, for a server each, and returns when all have ended.
func AFewAtATime(n int, do func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, maxStarting)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			do(i)
		})
	}
	all.Wait()
}
