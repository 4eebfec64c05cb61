package models

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/llm"
)

// SECA-27, ROB-6: no redirect leads a key, or a conversation, to another server.
func TestRedirects(t *testing.T) {
	for _, status := range []int{300, 301, 302, 303, 307, 308} {
		eachDialect(t, func(t *testing.T, d *dialect) {
			var led atomic.Int32
			thief := serve(t, func(w http.ResponseWriter, r *http.Request) {
				led.Add(1)
				w.Header().Set("Content-Type", d.kind)
				_, _ = io.WriteString(w, d.whole())
			})
			m := d.client(serve(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, thief+r.URL.Path, status)
			}))
			if _, err := run(t, m, hello()); err == nil {
				t.Errorf("Generate at a server that redirects (%d): no error", status)
			}
			if n := led.Load(); n != 0 {
				t.Errorf("%d requests have gone to another server", n)
			}
		})
	}
}

// SECA-27: a server that says the key back, in whatever place and disguise, does not get
// it into an error.
func TestKeySaidBack(t *testing.T) {
	split := key[:9] + "\u200b\x01" + key[9:]
	body := func(status int, kind, text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 "+strconv.Itoa(status)+" X\r\nContent-Type: "+kind+"\r\nConnection: close\r\n\r\n"+text)
		}
	}
	raw := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	tests := map[string]func(net.Conn){
		"no HTTP":               raw(key + "\r\n\r\n"),
		"a status":              raw("HTTP/1.1 " + key + " OK\r\n\r\n"),
		"a version":             raw(key + " 200 OK\r\n\r\n"),
		"a header without name": raw("HTTP/1.1 200 OK\r\n" + key + "\r\n\r\n"),
		"a length":              raw("HTTP/1.1 200 OK\r\nContent-Length: " + key + "\r\n\r\n"),
		"a transfer encoding":   raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + key + "\r\n\r\n"),
		"a chunk's length":      raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + key + "\r\n"),
		"a content type":        body(200, "text/html; x="+key, "x"),
		"a status line of 1 MB": raw(strings.Repeat("x", 1<<20) + "\r\n\r\n"),
		"a header of 9 MB":      raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("\x01", 9<<20) + "\r\n\r\n"),
		"an error's text":       body(401, "application/json", `{"error":{"message":"bad key `+key+`","code":"`+key+`","type":"`+key+`"}}`),
		"an error's own form":   body(500, "application/json", `{"error":{"`+key+`":"`+key+`"}}`),
		"an error with escapes": body(401, "application/json", `{"error":{"message":"bad key \u0073k-`+key[3:]+`"}}`),
		"an escape in a form":   body(401, "application/json", `{"error":{"x":"\u0073k-`+key[3:]+`"}}`),
		"an error in HTML":      body(502, "text/html", "<h1>"+key[:9]+"<b>"+key[9:]+"</b></h1>"),
		"an invisible sign":     body(400, "text/plain", split),
		"a location":            raw("HTTP/1.1 302 Found\r\nLocation: http://x/" + key + "\r\nContent-Length: 0\r\n\r\n"),
		"a stream's error":      body(200, "text/event-stream", "data: {\"error\":\""+split+"\"}\n\n"),
		"a stream's garbage":    body(200, "text/event-stream", "data: {"+key+"\n\n"),
		"a line's garbage":      body(200, "application/x-ndjson", "{\""+key+"\":"+key+"}\n"),
		"a duplicate":           body(200, "application/x-ndjson", "{\""+key+"\":1,\""+key+"\":2}\n"),
		"a call's name": body(200, "application/x-ndjson",
			`{"message":{"tool_calls":[{"function":{"name":"`+key+`","arguments":[]}}]}}`+"\n"),
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d *dialect) {
				var resp *llm.Response
				resp, err := run(t, d.client(rawServer(t, answer)), hello())
				if err == nil {
					t.Errorf("Generate: got %+v, want an error", resp)
				}
			})
		})
	}
}

// rawServer reads a request and writes what answer does.
func rawServer(t testing.TB, answer func(net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				answer(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}
