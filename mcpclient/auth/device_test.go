package auth_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// devices has the authorization server take device codes, and the person use one.
func (k *kit) byDevice(polls ...string) {
	k.serverAS = map[string]any{"device_authorization_endpoint": k.base + "/as1/device"}
	k.polls = polls
	k.is(func(ctx context.Context, r *auth.Request) error {
		_, err := r.Device(ctx)
		return err
	})
}

// A person authorizes the client on another device: the code is shown with all that is shown
// for a browser, the client asks for its token as often as the server wants, and renews it
// later. The registration names the grant (AUTH-40).
func TestDevice(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.byDevice(oauth.CodeAuthorizationPending, oauth.CodeSlowDown, "500", oauth.CodeAuthorizationPending, "")
		k.life = 60
		var code *auth.DeviceCode
		begun := time.Now()
		k.is(func(ctx context.Context, r *auth.Request) (err error) {
			if r.Server != k.base+"/mcp" || r.Issuer != k.base+"/as1" || r.Resource != k.base+"/mcp" || r.ClientID == "" || !slices.Equal(r.Scopes, []string{"read"}) || r.Why == "" {
				t.Errorf("got the request %+v", r)
			}
			code, err = r.Device(ctx)
			return err
		})
		c := k.credential()
		k.good(k.many(c, 10)...)
		if want := (auth.DeviceCode{Code: "WDJB-MJHT", URL: k.base + "/d", FullURL: k.base + "/d?c=WDJB-MJHT", Expires: begun.Add(5 * time.Minute)}); code == nil || *code != want {
			t.Errorf("got the code %+v, want %+v", code, want)
		}
		var waits []time.Duration
		for _, at := range k.polled {
			waits = append(waits, at.Sub(begun)/time.Second)
			begun = at
		}
		if want := []time.Duration{2, 2, 7, 12, 12}; !slices.Equal(waits, want) {
			t.Errorf("the client waits %v s, want %v", waits, want)
		}
		if !strings.Contains(k.registered[0], `"`+oauth.TypeDeviceGrant+`"`) {
			t.Errorf("got the registration %s", k.registered[0])
		}
		time.Sleep(time.Minute)
		k.good(k.call(c, "t"))
		k.counts("at the end", map[string]int{"device": 1, "register": 1, "authorize": 0, "refresh_token": 1})
	})
}

// An authorization on another device ends with the refusal there, with the code, and with the
// person who gives up; then no request follows (AUTH-40).
func TestDeviceEnds(t *testing.T) {
	pending := slices.Repeat([]string{oauth.CodeAuthorizationPending}, 1000)
	for name, test := range map[string]struct {
		polls []string
		gives time.Duration // when the person gives up; 0 is never
		want  string
		after time.Duration
	}{
		"refused":           {[]string{oauth.CodeAuthorizationPending, oauth.CodeAccessDenied}, 0, oauth.CodeAccessDenied, 4 * time.Second},
		"expired there":     {[]string{oauth.CodeExpiredToken}, 0, "the code has expired", 2 * time.Second},
		"expired here":      {pending, 0, "the code has expired", 5 * time.Minute},
		"the person leaves": {pending, time.Minute, "given up", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.byDevice(test.polls...)
				if test.gives != 0 {
					k.is(func(ctx context.Context, r *auth.Request) error {
						_, err := r.Device(ctx)
						time.Sleep(test.gives)
						return errors.Join(errors.New("given up"), err)
					})
				}
				begun := time.Now()
				err := k.call(k.credential(), "t")
				if !errors.Is(err, auth.ErrLogin) || !strings.Contains(err.Error(), test.want) || time.Since(begun) != test.after {
					t.Errorf("after %v: got %v, want %q after %v", time.Since(begun), err, test.want, test.after)
				}
				polled := len(k.polled)
				time.Sleep(time.Hour)
				if len(k.polled) != polled || strings.Contains(err.Error(), "device-secret") {
					t.Errorf("the client still asks, or shows the code: %v", err)
				}
			})
		})
	}
}

// Where the authorization server takes no device codes the person is told so, and can still
// use a browser; where it gives them to other clients only, the client registers without them;
// a browser may be used after a code was shown (AUTH-40).
func TestDeviceOrBrowser(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(k *kit)
		is        error
		registers int
	}{
		"none":          {func(k *kit) { k.serverAS = nil }, auth.ErrNoDevice, 1},
		"not this one":  {func(k *kit) { k.serverAS["grant_types_supported"] = []string{"authorization_code"} }, auth.ErrNoDevice, 1},
		"not this time": {func(k *kit) { k.noDevices = true }, nil, 2},
		"both":          {func(*kit) {}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.byDevice(slices.Repeat([]string{oauth.CodeAuthorizationPending}, 100)...)
				test.change(k)
				k.is(func(ctx context.Context, r *auth.Request) error {
					if _, err := r.Device(ctx); !errors.Is(err, test.is) {
						t.Errorf("Device: got %v, want %v", err, test.is)
					}
					time.Sleep(10 * time.Second)
					return k.agree(ctx, r)
				})
				k.good(k.call(k.credential(), "t"))
				k.counts("at the end", map[string]int{"authorize": 1, "register": test.registers})
				if _, err := k.requests()[0].Device(t.Context()); err == nil {
					t.Error("Device at the end: got no error")
				}
			})
		})
	}
}
