package authserver_test

import (
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/internal/memhttp"
)

// SECA-9, ROB-8: a form that does not come holds a connection for 30 s, at every endpoint and page.
func TestSlowForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rest = " HTTP/1.1\r\nHost: mcp.example.com\r\nContent-Type: application/x-www-form-urlencoded"
		w := newWorld(t, nil)
		var heads []string
		for _, path := range []string{"/token", "/register", "/revoke", "/authorize", "/login", "/login/callback", "/jwks", "/.well-known/oauth-authorization-server"} {
			heads = append(heads, "POST "+path+rest, "PUT "+path+rest, "POST "+path+rest+"\r\nOrigin: https://evil.example", "GET "+path+rest)
		}
		memhttp.HeldBy(t, w.as, heads...)
	})
}
