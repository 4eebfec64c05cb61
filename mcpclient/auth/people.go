package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpclient"
)

// AuthorizeFunc asks a person to let the client use a server, and opens [Request].URL for that,
// in a browser of the person. It returns when the person has agreed, or with an error that
// says why not; ctx ends when the authorization is over. It may block.
type AuthorizeFunc func(ctx context.Context, r *Request) error

// Request is what a person decides on. All texts of it are fit to be shown on one line.
type Request struct {
	Server   string // address of the MCP server
	Name     string // resource_name of the server's metadata; "" if it has none
	Resource string // the resource that the token will be good for
	Issuer   string // of the authorization server, where the person logs in
	ClientID string
	Scopes   []string // the scopes asked for
	New      []string // those of Scopes that the client does not have yet
	Why      string   // why the client needs the authorization
	// URL is the address to open, unchanged.
	URL string

	redirects chan redirect
	devices   chan chan deviceAnswer
	over      <-chan struct{} // closed with the login
}

type redirect struct {
	address string
	answer  chan error
}

// Redirected takes the address to which the browser was sent at the end, where it could not
// reach this program: a person may paste it. The error says why it is not the answer; then
// the right one is still waited for.
func (r *Request) Redirected(ctx context.Context, address string) error {
	one := redirect{address, make(chan error, 1)}
	select {
	case r.redirects <- one:
	case <-r.over:
		return fmt.Errorf("%w: it is over", ErrForeign)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-one.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ErrForeign is what [Request.Redirected] returns for an address that does not answer the
// request.
var ErrForeign = oauth.ErrForeign

// ErrLogin is what a [LoginError] is.
var ErrLogin = errors.New("auth: a person has to log in")

// LoginError says that a request waits for an authorization. It is the error of the request
// only if that does not come.
type LoginError struct {
	Server string // its address
	Err    error  // why there is none; nil while it is waited for

	keeper *Credential
	before *tokens  // that were refused; nil for none
	scopes []string // that a person has to agree to; nil if the server has not said
}

func (e *LoginError) Error() string {
	text := "a person has to log in at " + e.Server
	if e.machine() {
		text = "the program is not authorized at " + e.Server
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports that the error is [ErrLogin], if a person can help.
func (e *LoginError) Is(target error) bool { return target == ErrLogin && !e.machine() }

func (e *LoginError) machine() bool {
	return e.keeper != nil && e.keeper.server.OAuth.Grant != mcpclient.GrantPerson
}

// Unwrap returns why there is no authorization.
func (e *LoginError) Unwrap() error { return e.Err }

// Wait has resume called once, with nil when the request can be sent again, else with why
// not. It may be called before Wait returns. Leave gives the wait up. Where a person logs in
// with another process, Wait ends after [Options].Patience.
func (e *LoginError) Wait(resume func(error)) (leave func()) {
	return e.wait(resume, e.patience())
}

// Await is Wait without that bound.
func (e *LoginError) Await(resume func(error)) (leave func()) { return e.wait(resume, time.Time{}) }

func (e *LoginError) wait(resume func(error), until time.Time) (leave func()) {
	if e.Err != nil {
		resume(e.Err)
		return func() {}
	}
	return e.keeper.wait(e, until, resume)
}

func (e *LoginError) patience() time.Time {
	if e.keeper == nil {
		return time.Time{}
	}
	return time.Now().Add(e.keeper.a.opts.Patience)
}

// Elsewhere says what a person logs in to with another process, and for which scopes; nil if the
// server has not said. It is false if the program asks a person itself, or needs none.
func (e *LoginError) Elsewhere() (resource string, scopes []string, ok bool) {
	return e.Server, e.scopes, e.Err == nil && e.keeper != nil && e.keeper.elsewhere()
}
