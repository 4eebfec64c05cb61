package rest_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// TestConnectionsAreKept: requests at once use the connections of those before them.
func TestConnectionsAreKept(t *testing.T) {
	const atOnce = 20
	var opened atomic.Int64
	var all sync.WaitGroup // of a round: it waits until each of its requests has a connection
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		all.Done()
		all.Wait()
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := rest.Client(nil)
	defer client.CloseIdleConnections()
	for range 3 {
		all.Add(atOnce)
		var requests sync.WaitGroup
		for range atOnce {
			requests.Go(func() {
				res, err := client.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Error(err)
				}
			})
		}
		requests.Wait()
	}
	if n := opened.Load(); n != atOnce {
		t.Errorf("%d connections were opened for three rounds of %d requests, want %d", n, atOnce, atOnce)
	}
}
