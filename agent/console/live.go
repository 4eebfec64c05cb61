package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/store"
)

const (
	maxStreams = 64                     // that are open at once
	maxOfOne   = 16                     // of them of one viewer
	lookEvery  = 500 * time.Millisecond // at the store, for each stream
	beatEvery  = 15 * time.Second       // a sign of life, so that a browser that has gone is noticed
	streamLife = time.Hour              // after it the browser connects again, and is asked who it is
)

// streams counts the event streams that are open. Its zero value has none.
type streams struct {
	mu  sync.Mutex // guards what follows, of requests
	all int
	of  map[string]int // of each viewer, by name
}

// take takes a place for a stream of a viewer, if there is one.
func (s *streams) take(viewer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams || s.of[viewer] >= maxOfOne {
		return false
	}
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.all++
	s.of[viewer]++
	return true
}

// give gives it back.
func (s *streams) give(viewer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[viewer]--; s.of[viewer] == 0 {
		delete(s.of, viewer)
	}
}

// live tells a page by an event stream that what it follows has changed: the inbox, the list of
// runs, a run, a question, jobs or schedules. The page is loaded again then. A page may say how what it follows
// stood when it was made ("shown").
func (c *Console) live(v *visit) error {
	state := c.follows(v.r)
	if state == nil {
		c.say(v.w, v.r, http.StatusBadRequest, "This is nothing to follow.")
		return nil
	}
	if !c.streams.take(v.name) {
		v.w.Header().Set("Retry-After", "10")
		c.say(v.w, v.r, http.StatusServiceUnavailable, "Too many pages are open. This one is as it was when it was loaded.")
		return nil
	}
	defer c.streams.give(v.name)
	last, err := state(v.r.Context())
	if err != nil {
		return err
	}
	if shown := v.r.URL.Query().Get("shown"); shown != "" { // it may have changed since, before the stream was there
		last = shown
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(v.w)
	_ = out.SetWriteDeadline(time.Time{}) // a server's limit is for pages
	send := func(text string) error {
		if _, err := fmt.Fprint(v.w, text); err != nil {
			return err
		}
		return out.Flush()
	}
	if send("retry: 2000\n\n") != nil {
		return nil
	}
	said := ""
	look, beat, end := time.NewTicker(lookEvery), time.NewTicker(beatEvery), time.NewTimer(streamLife)
	defer look.Stop()
	defer beat.Stop()
	defer end.Stop()
	for {
		select {
		case <-v.r.Context().Done():
			return nil
		case <-end.C:
			return nil
		case <-beat.C:
			if send(": beat\n\n") != nil {
				return nil
			}
		case <-look.C:
			if text := c.said(v.r); text != said && text != "" {
				if said = text; send("event: text\ndata: "+said+"\n\n") != nil {
					return nil
				}
			}
			now, err := state(v.r.Context())
			if err != nil || now == last { // a store that is busy: the next look
				continue
			}
			if last = now; send("event: changed\ndata: \n\n") != nil {
				return nil
			}
		}
	}
}

// follows returns how what a request asks to follow stands, as a text that changes with it; nil for
// a request that follows nothing.
func (c *Console) follows(r *http.Request) func(context.Context) (string, error) {
	s, q := c.opts.Store, r.URL.Query()
	switch {
	case q.Has("inbox"):
		return func(ctx context.Context) (string, error) {
			newest, err := s.Asks(ctx, store.AskQuery{Limit: 1})
			if err != nil {
				return "", err
			}
			_, settled, err := s.SettledAsks(ctx, -1, 1)
			if len(newest) == 0 {
				return fmt.Sprint(settled), err
			}
			return fmt.Sprint(newest[0].ID, settled), err
		}
	case q.Get("ask") != "":
		return func(ctx context.Context) (string, error) {
			a, err := s.Ask(ctx, q.Get("ask"))
			return string(a.Status), err
		}
	case q.Get("run") != "": // and those that it has started
		return func(ctx context.Context) (string, error) {
			text := ""
			for _, id := range q["run"][:min(len(q["run"]), maxNested+1)] {
				run, err := s.Run(ctx, id)
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil {
					return "", err
				}
				text += fmt.Sprint(run.Seq, run.Owner, run.Epoch, owner.Holds(run, time.Now()), " ")
			}
			return text, nil
		}
	case q.Has("jobs"):
		return func(ctx context.Context) (string, error) { return jobsStand(ctx, s) }
	case q.Get("job") != "":
		return func(ctx context.Context) (string, error) {
			j, err := s.Job(ctx, q.Get("job"))
			if errors.Is(err, store.ErrNotFound) {
				return "removed", nil
			}
			return jobStand(&j), err
		}
	case q.Has("schedules"):
		return func(ctx context.Context) (string, error) {
			all, err := s.Schedules(ctx)
			var text strings.Builder
			for _, one := range all {
				fmt.Fprint(&text, one.Name, one.Paused, one.Next.UnixMicro(), one.Updated.UnixMicro(), " ")
			}
			return text.String(), err
		}
	case q.Has("servers"):
		p := processPages{c}
		return p.atMost(p.serversNow)
	case q.Has("models"):
		p := processPages{c}
		return p.atMost(p.modelsNow)
	case q.Has("tree"):
		p := processPages{c}
		return p.atMost(p.treeNow)
	case q.Has("runs"):
		return func(ctx context.Context) (string, error) {
			newest, err := s.Runs(ctx, store.Query{Limit: 50})
			text := ""
			for i := range newest {
				text += fmt.Sprint(newest[i].ID, newest[i].State, newest[i].Seq, newest[i].Owner, " ")
			}
			return text, err
		}
	}
	return nil
}

// said returns what the model of the run that a request follows says in the turn under way, as JSON; empty
// for none.
func (c *Console) said(r *http.Request) string {
	run := r.URL.Query().Get("run")
	if run == "" {
		return ""
	}
	turn, text, seen := runPages{c}.saying(r.Context(), run)
	if !seen || turn == 0 {
		return ""
	}
	raw, err := jsonx.Marshal(struct {
		Turn int    `json:"turn"`
		Text string `json:"text"`
	}{turn, text})
	if err != nil {
		return "" // not UTF-8
	}
	return string(raw)
}
