// Package visit has what the pages have in common that people visit: of package connect, where
// they connect accounts, and of package authserver, where they log in and consent.
//
// A page runs no script, loads nothing and is shown in no frame. Who visits it, and what was
// begun in a browser, is in cookies that are sealed.
package visit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/store"
)

// Style is the one style sheet of the pages, which the policy permits by its hash.
const Style = `body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem;color:#222;background:#fff}` +
	`h1{font-size:1.3rem}button{font:inherit;padding:.4rem 1rem;margin-right:.6rem}input[type=password],input[type=text]{font:inherit;width:100%;padding:.3rem}` +
	`dt{color:#666;margin-top:.6rem}dd{margin:0;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.4rem .6rem .4rem 0}.w{color:#a00}`

// Head defines the template "head", which begins a page with the heading Name.
const Head = `{{define "head"}}<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Name}}</title><style>` + Style + `</style><h1>{{.Name}}</h1>{{end}}`

var styleHash = func() string {
	sum := sha256.Sum256([]byte(Style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// SetHeaders makes a page that nothing may frame, keep, open beside itself, or learn the
// address of. Forms go to ourselves, and where that sends the browser: action has further
// sources.
func SetHeaders(h http.Header, action string) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src "+styleHash+"; form-action 'self'"+action+"; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin") // a site that opens the page has no hold of its window
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// Random returns 32 random bytes as text.
func Random() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Digest is a hash in hexadecimal digits.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// IsPath reports whether an address that a browser is sent back to is a path of the host that
// it comes from.
func IsPath(back string) bool {
	u, err := url.Parse(back)
	return err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(back, "/") && !strings.HasPrefix(back, "//") && !strings.ContainsAny(back, "\\\r\n\t")
}

// WithQuery adds a parameter to an address.
func WithQuery(address, name, value string) string {
	sep := "?"
	if strings.Contains(address, "?") {
		sep = "&"
	}
	return address + sep + name + "=" + url.QueryEscape(value)
}

// Cookies are those of a site.
type Cookies struct {
	HTTPS bool // the site is not on this machine
	Seal  *seal.Keys
}

// Name returns what a cookie is called. The browser accepts the prefix __Host- from this very
// host only, by https.
func (c *Cookies) Name(name string) string {
	if c.HTTPS {
		return "__Host-" + name
	}
	return name
}

// Set sends a cookie; with a life below zero it removes it.
func (c *Cookies) Set(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: c.Name(name), Value: value, Path: "/", MaxAge: max(int(life.Seconds()), -1), Secure: c.HTTPS, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// Browser returns the value by which a browser is known again, and sends it where it has none:
// two tabs have one.
func (c *Cookies) Browser(w http.ResponseWriter, r *http.Request, name string, life time.Duration) string {
	value := ""
	if had, err := r.Cookie(c.Name(name)); err == nil {
		value = had.Value
	}
	if raw, err := base64.RawURLEncoding.DecodeString(value); err != nil || len(raw) != 32 {
		value = Random()
	}
	c.Set(w, name, value, life)
	return value
}

// Write seals a value into a cookie.
func (c *Cookies) Write(w http.ResponseWriter, name string, value any, life time.Duration) error {
	text, err := c.SealText(value, "cookie\x00"+name)
	if err != nil {
		return err
	}
	c.Set(w, name, text, life)
	return nil
}

// Read opens a cookie that Write has sent.
func (c *Cookies) Read(r *http.Request, name string, value any) bool {
	cookie, err := r.Cookie(c.Name(name))
	return err == nil && c.OpenText(cookie.Value, "cookie\x00"+name, value)
}

// SealText seals a value for what it is about, as text for a cookie or a form.
func (c *Cookies) SealText(value any, about string) (string, error) {
	plain, err := jsonx.Marshal(value)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(c.Seal.Seal(plain, []byte(about))), nil
}

// OpenText opens what SealText has sealed.
func (c *Cookies) OpenText(text, about string, value any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	plain, err := c.Seal.Open(raw, []byte(about))
	return err == nil && jsonx.Unmarshal(plain, value) == nil
}

// Once reports whether a form with this id is sent for the first time, in all instances that share the
// store, within life.
func Once(ctx context.Context, s store.Vault, kind, id string, life time.Duration) (first bool, err error) {
	err = s.LeaseSealed(ctx, kind, id, rand.Text(), max(life, time.Second))
	if errors.Is(err, store.ErrLeased) {
		return false, nil
	}
	return err == nil, err
}

// MaxForm bounds the body of a POST, in bytes.
const MaxForm = 64 << 10

// Admit checks the method of a request to a page, and reads the form of a POST. Where it does not
// admit the request it returns the status and the text to answer with; the status of a POST of another
// site is 403.
func Admit(w http.ResponseWriter, r *http.Request, cross *http.CrossOriginProtection) (status int, text string) {
	switch r.Method {
	case http.MethodPost:
		if cross.Check(r) != nil {
			return http.StatusForbidden, "a POST of another site"
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxForm)
		if r.ParseForm() != nil {
			return http.StatusBadRequest, "The form cannot be read."
		}
	case http.MethodGet, http.MethodHead:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return http.StatusMethodNotAllowed, "This page can be read and sent only."
	}
	return 0, ""
}
