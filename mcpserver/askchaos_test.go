package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// chaos is one server with clients that come and go as they like.
type chaos struct {
	t      *testing.T
	client *http.Client

	mu    sync.Mutex
	paid  map[string]int // by the call that paid
	works map[string]int // handlers that work on it now
}

type buyIn struct {
	ID string `json:"id"`
}

// buy asks twice, and pays in between, once.
func (c *chaos) buy(ctx context.Context, req *mcpserver.ToolRequest, in buyIn) (string, error) {
	first, err := mcpserver.Elicit[nameForm](ctx, req, "who", "For whom?")
	if err != nil {
		return "", err
	}
	c.work(in.ID, 1)
	number, err := mcpserver.Once(ctx, req, "pay", func(context.Context) (int, error) {
		time.Sleep(300 * time.Millisecond) // whatever becomes of the call
		c.mu.Lock()
		defer c.mu.Unlock()
		c.paid[in.ID]++
		return c.paid[in.ID], nil
	})
	c.work(in.ID, -1)
	if err != nil {
		return "", err
	}
	select {
	case <-time.After(300 * time.Millisecond):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	second, err := mcpserver.Elicit[orderForm](ctx, req, "what", "How many for "+first.Name+"?")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d for %s, number %d", second.Count, first.Name, number), nil
}

// work counts the handlers that do what must not be done twice.
func (c *chaos) work(id string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.works[id] += n; c.works[id] > 1 {
		c.t.Errorf("%s: %d handlers at the same time", id, c.works[id])
	}
}

const bought = "3 for Ada, number 1"

// post sends a request and returns what is said last; "" if the client left before.
func (c *chaos) post(w *web, line string, patience time.Duration) string {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	got, err := w.send(ctx, http.MethodPost, strings.NewReader(line), w.headers(line))
	if err != nil {
		return ""
	}
	return got.last()
}

// modern is one call of a client of 2026-07-28.
func (c *chaos) modern(rnd *rand.Rand, id string) {
	w, a := newWeb(c.t, c.client, mcp.V2026_07_28), frames(c.t, mcp.V2026_07_28)
	arguments := fmt.Sprintf(`{"id":%q}`, id)
	extra := ""
	for range 40 {
		line := a.tool("buy", arguments, extra)
		patience := time.Hour
		switch rnd.IntN(8) {
		case 0, 1: // leaves, and comes again with the same
			patience = time.Duration(rnd.IntN(700)) * time.Millisecond
		case 2: // comes twice at once
			other := newWeb(c.t, c.client, mcp.V2026_07_28)
			twin := a.tool("buy", arguments, extra)
			left := time.Duration(rnd.IntN(1000)) * time.Millisecond
			if extra != "" { // else it is another call
				go c.post(other, twin, left)
			}
		case 3: // takes so long that nobody is there any more
			time.Sleep(2 * time.Minute)
		case 4: // gives up
			if rnd.IntN(4) == 0 {
				return
			}
		}
		answer := c.post(w, line, patience)
		if answer == "" {
			continue
		}
		m := readMessage(c.t, answer)
		if m.Result == nil || m.Result.ResultType != mcp.ResultInputRequired {
			if got := m.text(); got != bought {
				c.t.Errorf("%s: got %q, want %q", id, got, bought)
			}
			return
		}
		extra = a.retry(m, respondAda)
	}
}

// legacy is one call in a session.
func (c *chaos) legacy(rnd *rand.Rand, v mcp.Version, session, id string, next int) {
	w, a := newWeb(c.t, c.client, v), frames(c.t, v)
	w.session, a.next = session, next
	line := a.tool("buy", fmt.Sprintf(`{"id":%q}`, id), "")
	resp, err := w.start(c.t.Context(), http.MethodPost, strings.NewReader(line), w.headers(line))
	at := ""
	for range 40 {
		if err != nil {
			c.t.Errorf("%s: %v", id, err)
			return
		}
		in, dropped := sse.NewReader(resp.Body, 0), false
		for !dropped {
			e, err := in.Next()
			if err == io.EOF {
				c.t.Errorf("%s: the stream has ended without an answer", id)
				return
			}
			if err != nil {
				break
			}
			if e.ID != "" {
				at = e.ID
			}
			if len(e.Data) == 0 {
				continue
			}
			m := readMessage(c.t, string(e.Data))
			if m.Method == "" {
				if got := m.text(); got != bought {
					c.t.Errorf("%s: got %q, want %q", id, got, bought)
				}
				resp.Body.Close()
				return
			}
			switch rnd.IntN(6) {
			case 0: // cancelled: nothing more is said
				w.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, next+1))
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				return
			case 1, 2: // the connection is lost
				dropped = true
			}
			go c.answer(newWeb(c.t, c.client, v), session, m)
		}
		resp.Body.Close() // which closes the connection
		time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
		resp, err = w.start(c.t.Context(), http.MethodGet, nil, w.headers(""), map[string]string{"Last-Event-ID": at, "Accept": "text/event-stream"})
	}
}

// answer answers a question, on a connection of its own.
func (c *chaos) answer(w *web, session string, m said) {
	w.session = session
	c.post(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, respondAda(m.Method, m.Params)), time.Hour)
}

// SHM-08, SHL-15, CANC-03, SECA-12: whatever clients do with calls that ask, each
// call pays once at most, gets the outcome that it is to have, and leaves nothing.
func TestAskChaos(t *testing.T) {
	calls := 200
	if raceEnabled {
		calls = 20
	}
	for _, noParking := range []bool{false, true} {
		t.Run(fmt.Sprint("run again ", noParking), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := fragile(t)
				s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &mcpserver.Options{
					System: sys, Rounds: mcpserver.RoundOptions{NoParking: noParking, ParkFor: time.Minute, MaxParked: 30},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer empty(t, s, sys)
				c := &chaos{t: t, client: memhttp.Serve(t, s.Handler()), paid: map[string]int{}, works: map[string]int{}}
				if err := mcpserver.AddTool(s, &mcp.Tool{Name: "buy"}, c.buy); err != nil {
					t.Fatal(err)
				}
				var sessions []string
				versions := []mcp.Version{mcp.V2025_06_18, mcp.V2025_11_25}
				for _, v := range versions {
					w := newWeb(t, c.client, v)
					openWebAsked(w)
					sessions = append(sessions, w.session)
				}
				var all sync.WaitGroup
				for i := range calls {
					all.Go(func() {
						rnd := rand.New(rand.NewPCG(7, uint64(i)))
						time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
						id := fmt.Sprint("call ", i)
						if i%2 == 0 {
							c.modern(rnd, id)
						} else {
							c.legacy(rnd, versions[i/2%2], sessions[i/2%2], id, 1000*i)
						}
					})
				}
				all.Wait()
				wait(10 * time.Minute) // the sessions are open yet
				if n := sys.Census().Live(actors.KindInvocation); n != 0 {
					t.Errorf("%d handlers are parked", n)
				}
				if tasks := sys.Census().Tasks; len(tasks) != 0 {
					t.Errorf("still at work: %v", tasks)
				}
				wait(2 * time.Hour)
				if n := mcpserver.Calls(s); n != 0 {
					t.Errorf("%d calls are remembered", n)
				}
				for id, n := range c.paid {
					if n != 1 {
						t.Errorf("%s: paid %d times", id, n)
					}
				}
				if len(c.paid) < calls/2 {
					t.Errorf("only %d calls have paid", len(c.paid))
				}
			})
		})
	}
}
