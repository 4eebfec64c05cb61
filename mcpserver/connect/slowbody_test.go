package connect_test

import (
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/internal/memhttp"
)

// SECA-9, ROB-8: a form that does not come holds a connection for 30 s, at every page.
func TestSlowForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rest = " HTTP/1.1\r\nHost: app.example\r\nContent-Type: application/x-www-form-urlencoded"
		pages := newWorld(t).start("", nil, nil).cn
		var heads []string
		for _, path := range []string{"/connect", "/connect/start/x", "/connect/revoke", "/connect/callback/hub", "/elsewhere"} {
			heads = append(heads, "POST "+path+rest, "PUT "+path+rest, "POST "+path+rest+"\r\nOrigin: https://evil.example", "GET "+path+rest)
		}
		memhttp.HeldBy(t, pages, heads...)
	})
}
