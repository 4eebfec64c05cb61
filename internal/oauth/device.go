package oauth

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/sanitize"
)

// Bounds of a device authorization (RFC 8628).
const (
	deviceInterval = 5 * time.Second // unless the server says otherwise, and what slow_down adds
	maxInterval    = 5 * time.Minute
	maxDeviceLife  = time.Hour
)

// Device is an authorization that a person gives in a browser elsewhere.
type Device struct {
	Code     Secret
	UserCode string // to be shown, cleaned
	URL      string // to be visited
	FullURL  string // the same with the code in it; "" if the server has none
	Expires  time.Time
	Interval time.Duration // to wait before each asking
}

// deviceDocument is the JSON of the answer.
type deviceDocument struct {
	Code     Secret      `json:"device_code"`
	UserCode string      `json:"user_code"`
	URL      string      `json:"verification_uri"`
	FullURL  string      `json:"verification_uri_complete"`
	Expires  jsonx.Value `json:"expires_in"`
	Interval jsonx.Value `json:"interval"`
}

// StartDevice begins a device authorization.
func (c *Client) StartDevice(ctx context.Context, hc *http.Client, scopes []string) (*Device, error) {
	f := &form{"asking for a device code", map[string]string{"client_id": c.ID, "scope": strings.Join(scopes, " "), "resource": c.Resource}, nil}
	now := time.Now()
	a, sent, err := c.post(ctx, hc, c.Server.DeviceEndpoint, f, nil)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, refusal(f.op, a, sent)
	}
	var doc deviceDocument
	if err := a.decodeSecret(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", f.op, err)
	}
	d, err := doc.device(now, c.Server.Loopback)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", f.op, ErrMalformed, err)
	}
	return d, nil
}

func (doc *deviceDocument) device(now time.Time, loopback bool) (*Device, error) {
	d := &Device{Code: doc.Code, UserCode: sanitize.Line(doc.UserCode, 40)}
	if !isVisible(doc.Code.Reveal(), maxCode) || d.UserCode == "" || d.UserCode != doc.UserCode {
		return nil, fmt.Errorf("device_code or user_code is missing, too long, or has characters that it may not have")
	}
	var err error
	if d.URL, err = checkAddress("verification_uri", doc.URL, loopback); err != nil {
		return nil, err
	}
	if doc.FullURL != "" {
		if d.FullURL, err = checkAddress("verification_uri_complete", doc.FullURL, loopback); err != nil {
			return nil, err
		}
	}
	life, err := readSeconds(doc.Expires)
	if err != nil {
		return nil, fmt.Errorf("expires_in %w", err)
	}
	d.Expires = now.Add(min(cmp.Or(life, maxDeviceLife), maxDeviceLife))
	wait, err := readSeconds(doc.Interval)
	if err != nil {
		return nil, fmt.Errorf("interval %w", err)
	}
	d.Interval = min(cmp.Or(wait, deviceInterval), maxInterval)
	return d, nil
}

// TypeDeviceGrant is the grant type of a device code.
const TypeDeviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// DeviceGrant is a device authorization, which the person may not have given yet.
func DeviceGrant(d *Device) *Grant {
	return &Grant{form: form{"asking for the token of the device", map[string]string{"grant_type": TypeDeviceGrant},
		map[string]Secret{"device_code": d.Code}}}
}

// Again reports whether an error of asking with a [DeviceGrant] means to wait for Interval,
// which it makes longer where the server or the network wants that, and to ask again.
func (d *Device) Again(err error, now time.Time) bool {
	switch code := CodeOf(err); {
	case !now.Before(d.Expires):
		return false
	case code == CodeAuthorizationPending:
		return true
	case code == CodeSlowDown, Temporary(err):
		d.Interval = min(d.Interval+deviceInterval, maxInterval)
		return true
	}
	return false
}
