package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

func fixedRoots(uris ...string) asks.RootsFunc {
	return func(context.Context) ([]mcp.Root, error) {
		roots := make([]mcp.Root, len(uris))
		for i, uri := range uris {
			roots[i].URI = uri
		}
		return roots, nil
	}
}

func anywhere(string) bool { return true }

// ROOT-01, ROOT-03, ROOT-04: roots that are asked for each time. What may not be exposed is
// left out; of a failure the server hears no more than it was told.
func TestRootsFunc(t *testing.T) {
	tests := []struct {
		name string
		tell asks.RootsFunc
		want string
	}{
		{"some", fixedRoots("file:///a", "file:///b/../c", "https://x.example/"), `{"roots":[{"uri":"file:///a"}]}`},
		{"none", fixedRoots(), `{"roots":[]}`},
		{"a failure", func(context.Context) ([]mcp.Root, error) { return nil, errors.New("secret") }, "-32603 the roots are not known"},
		{"the client's error", func(context.Context) ([]mcp.Root, error) { return nil, mcp.Errorf(-7, "no roots today") }, "-7 no roots today"},
		{"a panic", func(context.Context) ([]mcp.Root, error) { panic("secret") }, "-32603 the roots are not known"},
	}
	for _, v := range []mcp.Version{mcp.V2024_11_05, mcp.V2025_11_25} {
		for _, tt := range tests {
			t.Run(string(v)+" "+tt.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newAsker(t, v)
					s.dial(&Options{AskOptions: AskOptions{RootsFunc: tt.tell, RootAvailable: anywhere}})
					got := s.ask("q", mcp.MethodListRoots, "")
					if got != tt.want {
						t.Errorf("got %s, want %s", got, tt.want)
					}
				})
			})
		}
	}
}

// ROOT-02: a legacy server hears that the roots have changed; where none were declared, and
// in 2026-07-28, nobody does.
func TestRootsChangedFunc(t *testing.T) {
	tests := []struct {
		version mcp.Version
		tell    asks.RootsFunc
		told    int
	}{{mcp.V2025_06_18, fixedRoots(), 1}, {mcp.V2025_06_18, nil, 0}, {mcp.V2026_07_28, fixedRoots(), 0}}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.version, tt.tell == nil), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, tt.version)
				c := s.dial(&Options{AskOptions: AskOptions{RootsFunc: tt.tell}})
				c.RootsChanged()
				synctest.Wait()
				if got := len(s.requests(mcp.NotificationRootsChanged)); got != tt.told {
					t.Errorf("told %d times, want %d", got, tt.told)
				}
			})
		})
	}
}

// ROOT-03, SECA-46: the roots of a call are told to a server that asks because of it. Where
// it may be because of another, the client's own are told.
func TestRootsOfACall(t *testing.T) {
	mine, yours := fixedRoots("file:///mine"), func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///yours"}}, nil }
	tests := []struct {
		name          string
		alice, bob    asks.RootsFunc
		one           bool // both calls have the same Human
		together      bool
		toAll, toBoth string
	}{
		{"in turns", mine, yours, false, false, "mine", "yours"},
		{"one has none", mine, nil, false, false, "mine", "own"},
		{"ambiguous", mine, yours, false, true, "own", "own"},
		{"one person's, others", mine, yours, true, true, "own", "own"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, mcp.V2025_11_25)
				var here, asked atomic.Int32
				both := func(n *atomic.Int32) {
					n.Add(1)
					for tt.together && n.Load() < 2 {
						time.Sleep(time.Millisecond)
					}
				}
				s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
					both(&here)
					name, _ := m.NameString()
					answer := s.ask("for "+name, mcp.MethodListRoots, "")
					both(&asked)
					return resultOf(m, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, answer))
				}
				c := s.dial(&Options{AskOptions: AskOptions{RootsFunc: fixedRoots("file:///own"), RootAvailable: anywhere, Human: says("decline")}})
				alice, bob := naming("Alice"), naming("Bob")
				if tt.one {
					bob = alice
				}
				got := bothOut(t, c, tt.together, &CallOptions{Human: alice, Roots: tt.alice}, &CallOptions{Human: bob, Roots: tt.bob})
				want := [2]string{`{"roots":[{"uri":"file:///` + tt.toAll + `"}]}`, `{"roots":[{"uri":"file:///` + tt.toBoth + `"}]}`}
				if got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		})
	}
}

// MRTR-01, ROOT-03: in 2026-07-28 too, and the question ends with its call.
func TestRootsOfACallModern(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
			p := members(t, m)
			if p["inputResponses"] == nil {
				return resultOf(m, `{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}`)
			}
			return resultOf(m, fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, string(p["inputResponses"])))
		}
		c := s.dial(&Options{AskOptions: AskOptions{RootsFunc: fixedRoots("file:///own"), RootAvailable: anywhere}})
		res, err := c.CallTool(t.Context(), "x", nil, &CallOptions{Roots: fixedRoots("file:///mine")})
		if err != nil {
			t.Fatal(err)
		}
		wantJSON(t, "the server got", res.Content.Text(), `{"r":{"roots":[{"uri":"file:///mine"}]}}`)

		asked, ended := make(chan struct{}), make(chan error, 1)
		hang := func(ctx context.Context) ([]mcp.Root, error) {
			close(asked)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		if _, err := c.CallTool(ctx, "x", nil, &CallOptions{Roots: hang}); !errors.Is(err, context.Canceled) {
			t.Errorf("CallTool: got %v", err)
		}
		if err := <-ended; err == nil {
			t.Error("the question for roots was not ended")
		}
	})
}
