package console_test

import (
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/store/memstore"
)

// SECA-9, ROB-8: a form that does not come holds a connection for 30 s, at every page.
func TestSlowForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := console.New(&console.Options{Store: memstore.New(nil)})
		if err != nil {
			t.Fatal(err)
		}
		const rest = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded"
		var heads []string
		for _, path := range []string{"/login", "/logout", "/", "/live?inbox", "/elsewhere"} {
			heads = append(heads, "POST "+path+rest, "PUT "+path+rest, "POST "+path+rest+"\r\nOrigin: https://evil.example", "GET "+path+rest)
		}
		memhttp.HeldBy(t, c, append(heads, "POST /login HTTP/1.1\r\nHost: evil.example")...)
	})
}
