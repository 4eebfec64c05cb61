package conn_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// bang makes whoever gets it panic.
type bang struct{}

// When the actor of a transport is killed or panics, its link is closed, the calls that
// were out get one outcome each, and the connection has a new one.
func TestTransportFails(t *testing.T) {
	ends := map[string]func(actors.Ref){
		"killed":   func(r actors.Ref) { r.Stop() },
		"panicked": func(r actors.Ref) { r.Send(bang{}) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var transports []actors.Ref
				sys, err := actors.NewSystem(&actors.Options{Trace: func(ev actors.TraceEvent) {
					switch ev.Message.(type) {
					case bang:
						panic(errRefused)
					case actors.Started:
						if ev.Actor.Kind() == actors.KindTransport {
							mu.Lock()
							defer mu.Unlock()
							transports = append(transports, ev.Actor)
						}
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := sys.Shutdown(context.WithoutCancel(t.Context())); err != nil || sys.Census().Live() != 0 {
						t.Errorf("Shutdown: %v, %+v left", err, sys.Census().Actors)
					}
					time.Sleep(time.Second) // virtual: what is asleep in the bubble ends
				}()
				p := &peer{answer: func(l *link, m mcp.Outgoing) {
					if m.Method == mcp.MethodPing {
						l.result(m.ID)
					}
				}}
				k := conn.New(sys, conn.Options{Name: "peer", Dial: p.Dial, Negotiate: p.Negotiate})
				if err := k.Start(); err != nil {
					t.Fatal(err)
				}
				if err := k.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
				r := k.Begin(&call.Request{Method: "stuck"}, nil)
				synctest.Wait()
				end(transports[0])
				if _, err := r.Wait(t.Context()); !errors.Is(err, call.ErrConnectionLost) {
					t.Errorf("the call: got %v, want %v", err, call.ErrConnectionLost)
				}
				time.Sleep(time.Second) // virtual: the wait before the next dial
				if _, err := k.Do(t.Context(), ping); err != nil || k.Status().Generation != 2 {
					t.Errorf("afterwards: %v on generation %d, want none on 2", err, k.Status().Generation)
				}
				mu.Lock()
				defer mu.Unlock()
				if len(transports) != 2 || p.closed != 1 {
					t.Errorf("%d transports, and %d links were closed; want 2 and 1", len(transports), p.closed)
				}
			})
		})
	}
}
