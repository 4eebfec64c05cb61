package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/sanitize"
)

// DeviceCode is what a person types in on another device, to authorize the client from there
// (RFC 8628). Its texts are fit to be shown on one line.
type DeviceCode struct {
	Code    string
	URL     string    // to be opened, on any device
	FullURL string    // the same with the code in it; "" if the authorization server has none
	Expires time.Time // when the code, or the authorization, is over
}

// ErrNoDevice is what [Request.Device] returns where the authorization server cannot.
var ErrNoDevice = errors.New("the authorization server has no authorization by a device code")

// Device begins an authorization on another device, in place of one at URL: there the person
// opens the address that is returned, and types in the code. The [AuthorizeFunc] shows both, and
// may return then; the authorization ends when the person has agreed or refused there, or with
// the code.
func (r *Request) Device(ctx context.Context) (*DeviceCode, error) {
	begun := make(chan deviceAnswer, 1)
	select {
	case r.devices <- begun:
	case <-r.over:
		return nil, errOver
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case a := <-begun:
		return a.code, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var errOver = errors.New("the authorization is over")

type deviceAnswer struct {
	code *DeviceCode
	err  error
}

// hasDevice reports whether an authorization server takes device codes.
func hasDevice(s *oauth.Server) bool {
	return s.DeviceEndpoint != "" && (s.GrantTypes == nil || slices.Contains(s.GrantTypes, oauth.TypeDeviceGrant))
}

// startDevice asks for a device code.
func (l *login) startDevice(ctx context.Context, scopes []string) (*oauth.Device, deviceAnswer) {
	if !hasDevice(l.client.Server) {
		return nil, deviceAnswer{err: fmt.Errorf("%w: %s", ErrNoDevice, sanitize.Line(l.client.Server.Issuer, 400))}
	}
	d, err := l.client.StartDevice(ctx, l.http, scopes)
	if err != nil {
		return nil, deviceAnswer{err: err}
	}
	code := &DeviceCode{Code: d.UserCode, URL: d.URL, FullURL: d.FullURL, Expires: d.Expires}
	if end, ok := ctx.Deadline(); ok && end.Before(code.Expires) {
		code.Expires = end
	}
	return d, deviceAnswer{code: code}
}

// poll asks once for the token of a device code. Again is how long to wait before it asks once
// more; zero ends the authorization.
func (l *login) poll(ctx context.Context, d *oauth.Device) (got *oauth.Token, again time.Duration, err error) {
	got, err = l.client.Token(ctx, l.http, oauth.DeviceGrant(d), "")
	switch {
	case err == nil:
		return got, 0, nil
	case d.Again(err, time.Now()):
		return nil, d.Interval, nil
	case !time.Now().Before(d.Expires) || oauth.CodeOf(err) == oauth.CodeExpiredToken:
		err = fmt.Errorf("the code has expired: %w", err)
	}
	return nil, 0, err
}
