package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// formAsk is a question of a server as its client puts it.
func formAsk() *mcpclient.Ask {
	return &mcpclient.Ask{ID: "1", Kind: mcpclient.AskForm, Server: "bank", Origin: "bank --stdio", Path: []string{"weather", "booking"}, Message: "Who?",
		Form: &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)}}
}

// answer settles the one question of a store that waits, as another process does.
func answer(t *testing.T, s store.Store, d store.Decision) {
	t.Helper()
	rows, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
	if err != nil || len(rows) != 1 {
		t.Fatalf("questions: got %+v, %v, want one", rows, err)
	}
	if _, err := s.SettleAsk(t.Context(), rows[0].ID, d); err != nil {
		t.Fatal(err)
	}
}

// SECA-34, SECA-41, TIME-05: a question of no run waits in the store, says who asks for
// whom, and is answered within a second of its row being settled, by whoever does so.
func TestInboxHuman(t *testing.T) {
	accepted, err := jsonx.Marshal(&mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"name": json.RawMessage(`"Ada"`)}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		settle store.Decision
		want   string
	}{
		{"accepted", store.Decision{Status: store.AskAccepted, Answer: accepted, By: "ada"}, `accept "Ada"`},
		{"declined", store.Decision{Status: store.AskDeclined, By: "ada"}, "decline "},
		{"cancelled", store.Decision{Status: store.AskCancelled, By: "ada"}, "cancel "},
		{"an answer to something else", store.Decision{Status: store.AskAccepted, Answer: []byte(`[1]`)}, "cancel "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memory()
				h := agent.InboxHuman(s, &agent.InboxOptions{Path: []string{"upstream"}, Poll: time.Hour})
				done := make(chan *mcpclient.Decision, 1)
				go func() {
					d, err := h.Decide(t.Context(), formAsk())
					if err != nil {
						t.Error(err)
					}
					done <- d
				}()
				time.Sleep(time.Hour + time.Millisecond)
				synctest.Wait()
				rows, err := s.Asks(t.Context(), store.AskQuery{})
				if err != nil || len(rows) != 1 {
					t.Fatalf("questions: got %+v, %v", rows, err)
				}
				row := rows[0]
				if row.Run != "" || row.Kind != "form" || row.Server != "bank" || row.Origin != "bank --stdio" || row.Status != store.AskPending ||
					!slices.Equal(row.Path, []string{"upstream", "weather", "booking"}) {
					t.Errorf("row: got %+v", row)
				}
				var q mcpclient.Ask
				if err := jsonx.Unmarshal(row.Payload, &q); err != nil {
					t.Fatal(err)
				}
				if hash, err := q.ContentHash(); err != nil || hash != row.Hash || q.Form == nil {
					t.Errorf("payload: got %s, hash %s, want %s, %v", row.Payload, row.Hash, hash, err)
				}
				before := time.Now()
				answer(t, s, tt.settle)
				d := <-done
				if got := d.Action + " " + string(d.Content["name"]); got != tt.want || time.Since(before) > time.Second {
					t.Errorf("decision: got %q after %v, want %q within a second", got, time.Since(before), tt.want)
				}
			})
		})
	}
}

// ELIC-05: a question that nobody answers in time is declined, and one that is of no use
// any more is settled as cancelled, so that it does not wait in vain.
func TestInboxHumanEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		start := time.Now()
		d, err := agent.InboxHuman(s, &agent.InboxOptions{Expiry: time.Minute}).Decide(t.Context(), formAsk())
		if took := time.Since(start); err != nil || d.Action != mcp.ActionDecline || took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("expired: got %+v, %v after %v", d, err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		ask := formAsk()
		ask.Expires = time.Now().Add(time.Hour)
		d, err = agent.InboxHuman(s, &agent.InboxOptions{Expiry: 2 * time.Hour, By: "the gateway"}).Decide(ctx, ask)
		if err != nil || d.Action != mcp.ActionCancel {
			t.Errorf("given up: got %+v, %v", d, err)
		}
		rows, err := s.Asks(t.Context(), store.AskQuery{})
		if err != nil || len(rows) != 2 || rows[0].Status != store.AskCancelled || rows[0].By != "the gateway" || !rows[0].Expires.Equal(ask.Expires) ||
			rows[1].Status != store.AskExpired {
			t.Errorf("rows: got %+v, %v", rows, err)
		}
		gone, cancelled := context.WithCancelCause(t.Context())
		cancelled(errTest)
		if d, err := agent.InboxHuman(s, nil).Decide(gone, formAsk()); !errors.Is(err, errTest) {
			t.Errorf("of no use from the beginning: got %+v, %v", d, err)
		}
		if rows, err := s.Asks(t.Context(), store.AskQuery{}); err != nil || len(rows) != 2 {
			t.Errorf("rows: got %d, %v", len(rows), err)
		}
	})
}

// failing is a store whose questions can not be read for a while, or not be opened.
type failing struct {
	store.Store
	reads atomic.Int32 // that fail
	opens bool
}

func (f *failing) OpenAsk(ctx context.Context, a store.Ask) error {
	if f.opens {
		return errTest
	}
	return f.Store.OpenAsk(ctx, a)
}

func (f *failing) Ask(ctx context.Context, id string) (store.Ask, error) {
	if f.reads.Add(-1) >= 0 {
		return store.Ask{}, errTest
	}
	return f.Store.Ask(ctx, id)
}

// A store that fails is no answer: what was opened waits for it, what was not is an error.
func TestInboxHumanStoreFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &failing{Store: memory()}
		s.reads.Store(5)
		h := agent.InboxHuman(s, nil)
		done := make(chan string, 1)
		go func() {
			d, err := h.Decide(t.Context(), formAsk())
			if err != nil {
				t.Error(err)
				d = new(mcpclient.Decision)
			}
			done <- d.Action
		}()
		synctest.Wait()
		answer(t, s, store.Decision{Status: store.AskDeclined})
		if got := <-done; got != mcp.ActionDecline {
			t.Errorf("got %q, want a decline", got)
		}
		s.opens = true
		if d, err := h.Decide(t.Context(), formAsk()); !errors.Is(err, errTest) || d != nil || !strings.Contains(err.Error(), "opening the question") {
			t.Errorf("a question that was not opened: got %+v, %v", d, err)
		}
	})
}
