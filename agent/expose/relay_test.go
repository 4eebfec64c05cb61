package expose_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// eras are those of the downstream server.
var eras = []string{"legacy", "modern"}

// byBoth runs f for every way to reach the front, each era behind it, and by both the
// agent and the gateway; under the race detector for half of that.
func byBoth(t *testing.T, f func(t *testing.T, fr *front, u *upstream, by string)) {
	for _, way := range ways {
		for i, era := range eras {
			for j, by := range []string{"agent", "gateway"} {
				if raced && i != j {
					continue
				}
				t.Run(way.name+"/"+era+"/"+by, func(t *testing.T) {
					t.Parallel()
					fr := newFront(t, era, nil)
					f(t, fr, fr.dial(t, way.transport, way.protocol, nil), by)
				})
			}
		}
	}
}

func has(t *testing.T, u *upstream, feature mcp.Feature) bool {
	t.Helper()
	info, err := u.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Version.Has(feature)
}

// refused calls a tool that needs what the client does not have: as nobody is told that it
// has it, the server itself says so (CAP-03).
func refused(t *testing.T, u *upstream, by, tool, want string) {
	t.Helper()
	res, err := u.call(t.Context(), by, tool)
	if err == nil {
		err = errors.New(text(res.Content))
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want that the client %s", tool, err, want)
	}
}

// ELIC-01, ELIC-06, SECA-34: a form reaches the client as it is, with the path of who asks.
func TestRelayForm(t *testing.T) {
	byBoth(t, func(t *testing.T, fr *front, u *upstream, by string) {
		if !has(t, u, mcp.FeatureElicitation) {
			refused(t, u, by, "form", "does not support elicitation of forms")
			return
		}
		res := u.ask(t, by, "form")
		if got := text(res.Content); got != "Hello, Ada" || res.IsError {
			t.Errorf("form: got %q, error %v, want Hello, Ada", got, res.IsError)
		}
		asks := u.asked()
		if len(asks) != 1 {
			t.Fatalf("questions: got %d, want 1", len(asks))
		}
		want := "down asks: What is your name?"
		if by == "agent" {
			want = "helper › " + want
		}
		if asks[0].Message != want {
			t.Errorf("message: got %q, want %q", asks[0].Message, want)
		}
		if n := fr.down.count("form"); n != 1 {
			t.Errorf("calls of the server's tool: got %d, want 1", n)
		}
	})
}

// URL-10, URL-30: a page goes to the client with its address unchanged, and nobody else
// looks at it.
func TestRelayURL(t *testing.T) {
	byBoth(t, func(t *testing.T, fr *front, u *upstream, by string) {
		if !has(t, u, mcp.FeatureURLElicitation) {
			refused(t, u, by, "url", "does not support elicitation by URL")
			return
		}
		type outcome struct {
			res *mcp.CallToolResult
			err error
		}
		over := make(chan outcome, 1)
		go func() {
			res, err := u.call(t.Context(), by, "url")
			over <- outcome{res, err}
		}()
		url := <-u.opened
		id, ok := strings.CutPrefix(url, "https://id.example/sign?id=")
		if !ok {
			t.Fatalf("page: got %q", url)
		}
		if err := fr.down.CompleteElicitation(id, ""); err != nil {
			t.Fatal(err)
		}
		out := <-over
		if out.err != nil || text(out.res.Content) != "signed in" {
			t.Errorf("url: got %v, %v, want signed in", out.res, out.err)
		}
		if n := fr.down.count("url"); n != 1 {
			t.Errorf("calls of the server's tool: got %d, want 1", n)
		}
	})
}

// SAMP-01: the client's model answers for the server.
func TestRelaySampling(t *testing.T) {
	byBoth(t, func(t *testing.T, _ *front, u *upstream, by string) {
		if got := text(u.ask(t, by, "sample").Content); got != "ha" {
			t.Errorf("sample: got %q, want ha", got)
		}
		if len(u.samples) != 1 {
			t.Errorf("samples of the client: got %d, want 1", len(u.samples))
		}
	})
}

// ROOT-01: the roots are the client's.
func TestRelayRoots(t *testing.T) {
	byBoth(t, func(t *testing.T, _ *front, u *upstream, by string) {
		if got := text(u.ask(t, by, "roots").Content); got != "file:///home/ada" {
			t.Errorf("roots: got %q, want file:///home/ada", got)
		}
	})
}

// PROG-01: progress of the server reaches the client.
func TestRelayProgress(t *testing.T) {
	byBoth(t, func(t *testing.T, _ *front, u *upstream, by string) {
		u.ask(t, by, "progress")
		u.mu.Lock()
		defer u.mu.Unlock()
		if len(u.progress) == 0 {
			t.Fatal("there was no progress")
		}
		if by == "gateway" {
			p := u.progress[0]
			if p.Progress != 1 || p.Total == nil || *p.Total != 2 {
				t.Errorf("progress: got %+v, want 1 of 2", p)
			}
		}
	})
}

// LOG-01: what the server logs during a call reaches the client with it.
func TestRelayLog(t *testing.T) {
	byBoth(t, func(t *testing.T, _ *front, u *upstream, by string) {
		u.ask(t, by, "log")
		for p := range u.logs {
			if p.Level == mcp.LogWarning && strings.Contains(string(p.Data), "hot") {
				if p.Logger != "down/oven" {
					t.Errorf("logger: got %q, want down/oven", p.Logger)
				}
				return
			}
		}
	})
}

var errEnough = errors.New("enough")

// CANC-01: a cancel of the client's call reaches the server.
func TestRelayCancel(t *testing.T) {
	byBoth(t, func(t *testing.T, fr *front, u *upstream, by string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		over := make(chan error, 1)
		go func() {
			_, err := u.call(ctx, by, "wait")
			over <- err
		}()
		<-fr.down.waiting
		cancel(errEnough)
		if err := <-over; !errors.Is(err, errEnough) {
			t.Errorf("call: got error %v, want %v", err, errEnough)
		}
		<-fr.down.cancelled
	})
}

// MRTR-02: several questions at once reach a client at once.
func TestRelayTwo(t *testing.T) {
	byBoth(t, func(t *testing.T, _ *front, u *upstream, by string) {
		if !has(t, u, mcp.FeatureElicitation) {
			return
		}
		u.form = numbers(map[string]string{"first?": "1", "second?": "2"})
		if got := text(u.ask(t, by, "two").Content); got != "1+2" {
			t.Errorf("two: got %q, want 1+2", got)
		}
	})
}
