package call_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// What happens to a connection between the moment in which a call gets its actor and that in which
// the actor hears of the call reaches the call: a connection that gets ready sends it, and the end
// of the table ends it.
func TestCallBeginsMeanwhile(t *testing.T) {
	ping := &call.Request{Method: mcp.MethodPing, Safe: true}
	calls := map[string]func(b *bench) error{
		"Do": func(b *bench) error {
			_, err := b.Do(context.Background(), ping)
			return err
		},
		"Start": func(b *bench) error {
			done := make(chan error, 1)
			b.Start(ping, func(_ call.Result, err error) { done <- err })
			return <-done
		},
	}
	for _, tt := range []struct {
		name      string
		connected bool
		meanwhile func(b *bench)
		want      error
	}{
		{"the connection gets ready", false, func(b *bench) { b.connect(1, b.echo(1)) }, nil},
		{"another connection gets ready", true, func(b *bench) { b.Lost(1, errors.New("lost")); b.connect(2, b.echo(2)) }, nil},
		{"the table is closed", false, func(b *bench) { b.Close(call.ErrClosed) }, call.ErrClosed},
		{"the table is closed, with a connection", true, func(b *bench) { b.Lost(1, call.ErrClosed); b.Close(call.ErrClosed) }, call.ErrClosed},
	} {
		for name, begin := range calls {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newTable(t, nil)
					b.connect(1, b.echo(1))
					if err := begin(b); err != nil { // an actor is idle from here on
						t.Fatal(err)
					}
					if !tt.connected {
						b.Lost(1, errors.New("lost"))
					}
					b.OnAssigned(func() {
						b.OnAssigned(nil)
						tt.meanwhile(b)
						synctest.Wait()
					})
					if err := begin(b); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
						t.Errorf("got %v, want %v", err, tt.want)
					}
				})
			})
		}
	}
}
