package storetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// testAppendRepeat: an append whose outcome its caller does not know can be made again,
// and is made once.
func testAppendRepeat(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r", event(store.RunStarted, 1))
	at := time.Date(2026, 3, 4, 5, 6, 7, 8901, time.UTC)
	two := store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 1, State: store.Waiting, Events: []store.Event{
		{Type: "a", Key: "k", Time: at, Body: event("", 2).Body}, {Type: "b", Time: at}}}
	three := store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 3, State: store.Running, Events: []store.Event{event("c", 4)}}
	last := store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 4, State: store.Finished, Events: []store.Event{event(store.RunFinished, 5)}}
	for i, step := range []store.Append{two, three, last} {
		want := step.After + int64(len(step.Events))
		for range 3 { // the last of them to a run that has ended
			if got, err := s.Append(t.Context(), step); err != nil || got != want {
				t.Errorf("step %d: got %d, %v, want %d", i, got, err, want)
			}
		}
		if got, err := s.Append(t.Context(), two); err != nil || got != 3 {
			t.Errorf("step %d, the first append again: got %d, %v, want 3", i, got, err)
		}
		if head, err := s.Run(t.Context(), "r"); err != nil || head.State != step.State || head.Seq != want {
			t.Errorf("step %d: got %q at %d, %v, want %q at %d", i, head.State, head.Seq, err, step.State, want)
		}
	}
	if n := len(replay(t, s, "r")); n != 5 {
		t.Errorf("got %d events, want 5", n)
	}
}

// testAppendConflict: nothing is written behind events that the caller does not know.
func testAppendConflict(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r", event(store.RunStarted, 1))
	made := store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 1, Events: []store.Event{event("a", 2), event("b", 3)}}
	if _, err := s.Append(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	change := func(f func(*store.Append)) store.Append {
		a := made
		a.Events = append([]store.Event(nil), made.Events...)
		f(&a)
		return a
	}
	tests := []struct {
		name string
		a    store.Append
		want error
	}{
		{"another body", change(func(a *store.Append) { a.Events[1] = event("b", 4) }), store.ErrConflict},
		{"another type", change(func(a *store.Append) { a.Events[0].Type = "c" }), store.ErrConflict},
		{"another key", change(func(a *store.Append) { a.Events[0].Key = "k" }), store.ErrConflict},
		{"another time", change(func(a *store.Append) { a.Events[0].Time = time.Now().Add(time.Hour) }), store.ErrConflict},
		{"more events", change(func(a *store.Append) { a.Events = append(a.Events, event("c", 4)) }), store.ErrConflict},
		{"other events", change(func(a *store.Append) { a.After = 2 }), store.ErrConflict},
		{"no events", change(func(a *store.Append) { a.Events = nil }), store.ErrConflict},
		{"a run that is shorter", change(func(a *store.Append) { a.After = 4 }), store.ErrConflict},
		{"another epoch", change(func(a *store.Append) { a.Epoch++ }), store.ErrFenced},
		{"nonsense", change(func(a *store.Append) { a.After = -2 }), store.ErrInvalid},
	}
	for _, tt := range tests {
		_, err := s.Append(t.Context(), tt.a)
		wantErr(t, "Append of "+tt.name, err, tt.want)
	}
	if n := len(replay(t, s, "r")); n != 3 {
		t.Errorf("got %d events, want 3", n)
	}
	claimed, err := s.Claim(t.Context(), "r", "w", ttl)
	wantErr(t, "Claim", err, nil)
	_, err = s.Append(t.Context(), made)
	wantErr(t, "the repeat of one that was claimed from", err, store.ErrFenced)
	made.Epoch, made.After = claimed.Epoch, 3
	if last, err := s.Append(t.Context(), made); err != nil || last != 5 {
		t.Errorf("Append under the new epoch: got %d, %v, want 5", last, err)
	}
}

// testAppendAsks: an ask and the event that says so are there together, or not at all.
func testAppendAsks(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	create(t, s, "other")
	wantErr(t, "OpenAsk", s.OpenAsk(t.Context(), fullAsk("others", "other")), nil)
	opened := store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, State: store.Waiting, Events: []store.Event{{Type: store.AskOpened, Key: "q"}},
		Asks: []store.Ask{fullAsk("q", "r"), fullAsk("q2", "r")}}
	for range 2 {
		_, err := s.Append(t.Context(), opened)
		wantErr(t, "Append that opens asks", err, nil)
	}
	want := fullAsk("q", "r")
	want.Status = store.AskPending
	got, err := s.Ask(t.Context(), "q")
	wantErr(t, "Ask", err, nil)
	want.Created = got.Created
	wantEqual(t, "Ask", got, want)

	again := store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 1, Events: []store.Event{{Type: store.AskOpened, Key: "q"}}, Asks: []store.Ask{fullAsk("q", "r")}}
	if last, err := s.Append(t.Context(), again); err != nil || last != 2 {
		t.Errorf("Append that opens the same ask: got %d, %v, want 2", last, err)
	}
	d := store.Decision{Status: store.AskAccepted, By: "ada", Scope: "once", Answer: []byte(`{"a":1}`)}
	settle := store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 2, State: store.Running, Events: []store.Event{{Type: store.AskSettled, Key: "q"}},
		Settle: []store.Settlement{{Ask: "q", Decision: d}}}
	for range 2 {
		last, err := s.Append(t.Context(), settle)
		if err != nil || last != 3 {
			t.Errorf("Append that settles: got %d, %v, want 3", last, err)
		}
	}
	got, err = s.Ask(t.Context(), "q")
	wantErr(t, "Ask", err, nil)
	d.At = got.At
	wantEqual(t, "decision", got.Decision, d)
	asks, _, err := s.SettledAsks(t.Context(), 0, 0)
	if err != nil || len(asks) != 1 || asks[0].ID != "q" {
		t.Errorf("SettledAsks: got %v, %v, want q once", asks, err)
	}
	testRefusedAsks(t, s, r)
	if head, err := s.Run(t.Context(), "r"); err != nil || head.Seq != 3 {
		t.Errorf("after what was refused: got %d events, %v, want 3", head.Seq, err)
	}
	if a, err := s.Ask(t.Context(), "q2"); err != nil || a.Status != store.AskPending {
		t.Errorf("the other ask: got %q, %v, want it pending", a.Status, err)
	}
}

// testRefusedAsks appends what must be refused; r has the settled ask q and the pending q2,
// and three events.
func testRefusedAsks(t *testing.T, s store.Store, r store.Run) {
	t.Helper()
	say := []store.Event{{Type: "e"}}
	yes := store.Decision{Status: store.AskAccepted}
	another := fullAsk("q2", "r")
	another.Hash = "another"
	tests := []struct {
		name   string
		events []store.Event
		asks   []store.Ask
		settle []store.Settlement
		want   error
	}{
		{"a settled ask", say, nil, []store.Settlement{{Ask: "q2", Decision: yes}, {Ask: "q", Decision: yes}}, store.ErrSettled},
		{"an unknown ask", say, []store.Ask{fullAsk("q3", "r")}, []store.Settlement{{Ask: "q9", Decision: yes}}, store.ErrNotFound},
		{"another run's ask", say, nil, []store.Settlement{{Ask: "others", Decision: yes}}, store.ErrNotFound},
		{"an ask of an ID that is taken", say, []store.Ask{fullAsk("q3", "r"), another}, nil, store.ErrExists},
		{"an ask for another run", say, []store.Ask{fullAsk("q3", "other")}, nil, store.ErrInvalid},
		{"asks without an event", nil, []store.Ask{fullAsk("q3", "r")}, nil, store.ErrInvalid},
		{"a settlement without an event", nil, nil, []store.Settlement{{Ask: "q2", Decision: yes}}, store.ErrInvalid},
		{"an ask twice", say, []store.Ask{fullAsk("q3", "r"), fullAsk("q3", "r")}, nil, store.ErrInvalid},
		{"a settlement twice", say, nil, []store.Settlement{{Ask: "q2", Decision: yes}, {Ask: "q2", Decision: yes}}, store.ErrInvalid},
		{"no decision", say, nil, []store.Settlement{{Ask: "q2", Decision: store.Decision{Status: store.AskPending}}}, store.ErrInvalid},
	}
	for _, tt := range tests {
		_, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 3, Events: tt.events, Asks: tt.asks, Settle: tt.settle})
		wantErr(t, "Append with "+tt.name, err, tt.want)
	}
	_, err := s.Ask(t.Context(), "q3")
	wantErr(t, "an ask of a refused append", err, store.ErrNotFound)
	_, err = s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch + 1, After: 3, Events: say, Asks: []store.Ask{fullAsk("q3", "r")}})
	wantErr(t, "Append of an ask under another epoch", err, store.ErrFenced)
}

// testAppendSettleExpired: what has expired is not settled by an append either (SECA-51).
func testAppendSettleExpired(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		r := create(t, s, "r")
		a := fullAsk("q", "r")
		a.Expires = store.Clock(time.Now().Add(time.Minute))
		_, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, Events: []store.Event{event("opened", 1)}, Asks: []store.Ask{a}})
		wantErr(t, "Append that opens", err, nil)
		time.Sleep(time.Minute)
		_, err = s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 1, Events: []store.Event{event("settled", 2)},
			Settle: []store.Settlement{{Ask: "q", Decision: store.Decision{Status: store.AskAccepted}}}})
		wantErr(t, "Append that settles too late", err, store.ErrSettled)
		if n := len(replay(t, s, "r")); n != 1 {
			t.Errorf("got %d events, want 1", n)
		}
	})
}

// testAppendEndsJob: the end of a run ends its job with it, once, if the job's lease is held; else
// only the run.
func testAppendEndsJob(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	for _, tt := range []struct {
		id          string
		held, known bool
		lose        func(u *store.JobUpdate)
	}{
		{"held", true, false, func(u *store.JobUpdate) { u.Failed, u.Error = true, "why" }},
		{"another-epoch", false, false, func(u *store.JobUpdate) { u.Epoch-- }},
		{"another-owner", false, false, func(u *store.JobUpdate) { u.Owner = "w2" }},
		{"missing", false, false, func(u *store.JobUpdate) { u.ID = "no-job" }},
		{"known", true, true, func(*store.JobUpdate) {}},
		{"known-lost", true, true, func(u *store.JobUpdate) { u.Failed, u.Lost, u.Error = true, true, "why" }},
		{"known-another-epoch", false, true, func(u *store.JobUpdate) { u.Epoch-- }},
		{"known-another-owner", false, true, func(u *store.JobUpdate) { u.Owner = "w2" }},
		{"known-missing", false, true, func(u *store.JobUpdate) { u.ID = "no-job" }},
	} {
		addJob(t, s, store.Job{ID: tt.id, Hook: "https://example.com"})
		list, _ := claimJobs(t, s, "w", 1)
		r := create(t, s, list[0].Run, event(store.RunStarted, 1))
		u := updateOf(list[0], store.JobDone)
		u.Result = []byte(`{"text":"done"}`)
		u.Ended = new(store.Job)
		tt.lose(&u)
		if tt.known { // by a worker that has not heard of the loss
			known := list[0]
			known.ID, known.Epoch, known.Owner, u.Known = u.ID, u.Epoch, u.Owner, &known
		}
		end := store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: 1, State: store.Finished, Events: []store.Event{event(store.RunFinished, 2)}, Job: &u}
		for range 2 {
			if last, err := s.Append(t.Context(), end); err != nil || last != 2 {
				t.Errorf("%s: Append: got %d, %v, want 2", tt.id, last, err)
			}
		}
		if head, err := s.Run(t.Context(), r.ID); err != nil || head.State != store.Finished {
			t.Errorf("%s: the run: got %+v, %v", tt.id, head, err)
		}
		j, err := s.Job(t.Context(), tt.id)
		wantErr(t, tt.id, err, nil)
		if got := j.State == store.JobDone && string(j.Result) == `{"text":"done"}` && j.Owner == "" && j.Untold; got != tt.held || !tt.held && j.State != store.JobRunning {
			t.Errorf("%s: the job: got %+v", tt.id, j)
		}
		if !tt.held {
			j = store.Job{}
		}
		wantEqual(t, tt.id+": the job as the append has ended it", *u.Ended, j)
		again, err := s.UpdateJob(t.Context(), updateOf(list[0], store.JobFailed))
		if tt.held {
			wantErr(t, "UpdateJob of one that has ended", err, store.ErrFinished)
			wantEqual(t, "the job that has ended", again, j)
		} else {
			wantErr(t, "UpdateJob of one that is held", err, nil)
		}
	}
	r := create(t, s, "r")
	u := store.JobUpdate{JobLease: store.JobLease{ID: "held", Epoch: 1}, Owner: "w", State: store.JobDone}
	for _, a := range []store.Append{
		{Job: &store.JobUpdate{JobLease: u.JobLease, Owner: "w", State: store.JobQueued}, State: store.Finished}, // it does not end
		{Job: &u, State: store.Running},
		{Job: &store.JobUpdate{State: store.JobDone}, State: store.Finished},
	} {
		a.Run, a.Owner, a.Epoch, a.Events = r.ID, r.Owner, r.Epoch, []store.Event{event("a", 1)}
		_, err := s.Append(t.Context(), a)
		wantErr(t, "Append", err, store.ErrInvalid)
	}
}
