// Package serving serves what the conformance suite tests over HTTP.
package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// patience bounds the end of what is under way when the program is told to stop.
const patience = 5 * time.Second

// Serve serves h at the address until ctx ends, and prints the URL of /mcp. When ctx ends,
// shutdown lets calls under way end, then streams and connections are closed.
func Serve(ctx context.Context, address string, h http.Handler, shutdown func(context.Context) error) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	web := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err := shutdown(ctx)
		last, cancel := context.WithTimeout(ctx, patience/5)
		defer cancel()
		if web.Shutdown(last) != nil {
			web.Close() // it waits for connections that never had a request, too
		}
		ended <- err
	})
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}
