package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// A tenant that somebody closes without a hurry, while a call hangs, does not hold up who
// closes it, or the runtime, and has less time (ROB-1).
func TestTenantCloseInAHurry(t *testing.T) {
	hurries := map[string]func(ctx context.Context, rt *agent.Runtime, tn *agent.Tenant) error{
		"the runtime": func(ctx context.Context, rt *agent.Runtime, _ *agent.Tenant) error { return rt.Shutdown(ctx) },
		"the tenant":  func(ctx context.Context, _ *agent.Runtime, tn *agent.Tenant) error { return tn.Close(ctx) },
	}
	for name, hurry := range hurries {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rt, err := agent.Open(t.Context(), &agent.Options{Model: llmtest.Script(), Servers: []mcpclient.Server{mcpclient.InProcess("asking", newAsking(t))}})
				if err != nil {
					t.Fatal(err)
				}
				tn := tenant(t, rt, nil)
				patient, done := make(chan error, 1), make(chan error, 1)
				go func() {
					_, err := tn.Host().Call(context.Background(), "asking__hang", nil, nil)
					done <- err
				}()
				synctest.Wait()
				go func() { patient <- tn.Close(context.Background()) }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begun := time.Now()
				if err := hurry(ctx, rt, tn); err == nil || time.Since(begun) > 20*time.Second {
					t.Errorf("closing: got %v after %v, want an error within seconds", err, time.Since(begun))
				}
				if err := <-patient; err == nil {
					t.Error("the call was ended, and who has waited for it got no error")
				}
				if err := <-done; err == nil {
					t.Error("the call that hangs: got no error")
				}
				_ = rt.Close()
				time.Sleep(time.Second) // virtual
			})
		})
	}
}
