package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// hostile names are to be kept and found as they are (SECA-55).
var hostile = []string{
	`'; DROP TABLE runs; --`, `" OR ""="`, `x' OR '1'='1`, `%`, `_`, `*`, `?1`, `:id`, `@p`, `$1`, `\`, `\'`, `/* */`, "`", `[x]`,
	`../../etc/passwd`, `a/b`, `file:x?mode=memory`, `%00`, `NULL`, `0`, ` `, `a.b`, `.`, `-1.x`, `{}`, `"`, `ÄÖÜ`, `é`, `e` + "\u0301",
	`名前`, `🙂`, strings.Repeat("x", store.MaxID), strings.Repeat("界", store.MaxID),
}

func testHostileNames(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	for _, name := range hostile {
		in := store.Run{ID: name, Agent: name, Title: name, Summary: name, InputHash: name}
		r, err := s.Create(t.Context(), in, name, ttl, store.Event{Type: name, Key: name})
		if err != nil {
			t.Errorf("Create(%q): %v", name, err)
			continue
		}
		appendTo(t, s, r, store.Event{Type: name, Key: name, Body: mustJSON(name)})
		got, err := s.Run(t.Context(), name)
		if err != nil || got.ID != name || got.Agent != name || got.Title != name || got.Summary != name || got.Owner != name {
			t.Errorf("Run(%q): got %+v, %v", name, got, err)
		}
		events := replay(t, s, name)
		if len(events) != 2 || events[1].Type != name || events[1].Key != name || string(events[1].Body) != string(mustJSON(name)) {
			t.Errorf("events of %q: got %+v", name, events)
		}
		list, err := s.Runs(t.Context(), store.Query{Agent: name})
		if err != nil || len(list) != 1 || list[0].ID != name {
			t.Errorf("Runs of agent %q: got %+v, %v, want one", name, list, err)
		}
		if _, err := s.Runs(t.Context(), store.Query{Parent: name, After: got.Cursor()}); err != nil {
			t.Errorf("Runs after %q: %v", name, err)
		}
		if _, err := s.Claim(t.Context(), name, name, ttl); err != nil {
			t.Errorf("Claim(%q): %v", name, err)
		}
		hostileAsk(t, s, name)
		hostileApproval(t, s, name)
		hostilePin(t, s, name)
		hostileRecord(t, s, name)
	}
	all, err := s.Runs(t.Context(), store.Query{})
	if err != nil || len(all) != len(hostile) {
		t.Errorf("Runs: got %d, %v, want %d", len(all), err, len(hostile))
	}
	for _, name := range hostile {
		r, err := s.Run(t.Context(), name)
		wantErr(t, fmt.Sprintf("Run(%q)", name), err, nil)
		wantErr(t, fmt.Sprintf("Renew(%q)", name), s.Renew(t.Context(), name, name, r.Epoch, ttl), nil)
		wantErr(t, fmt.Sprintf("Release(%q)", name), s.Release(t.Context(), name, name, r.Epoch), nil)
		wantErr(t, fmt.Sprintf("Delete(%q)", name), s.Delete(t.Context(), name), nil)
		wantErr(t, fmt.Sprintf("Revoke(%q)", name), s.Revoke(t.Context(), name, name, name), nil)
		wantErr(t, fmt.Sprintf("Unpin(%q)", name), s.Unpin(t.Context(), name, name, name), nil)
	}
	all, err = s.Runs(t.Context(), store.Query{})
	if err != nil || len(all) != 0 {
		t.Errorf("Runs after all are deleted: got %v, %v", all, err)
	}
}

func hostileAsk(t *testing.T, s store.Store, name string) {
	t.Helper()
	in := store.Ask{ID: name, Run: name, Kind: name, Server: name, Origin: name, Tool: name + "\x1b[2J\n", Trust: name, Hash: name,
		Path: []string{name, "", name}, Payload: mustJSON(name)}
	wantErr(t, fmt.Sprintf("OpenAsk(%q)", name), s.OpenAsk(t.Context(), in), nil)
	list, err := s.Asks(t.Context(), store.AskQuery{Run: name, Server: name, Status: store.AskPending})
	if err != nil || len(list) != 1 {
		t.Fatalf("Asks(%q): got %v, %v, want one", name, list, err)
	}
	d := store.Decision{Status: store.AskAccepted, By: name, Scope: name, Answer: mustJSON(name), At: list[0].Created}
	got, err := s.SettleAsk(t.Context(), name, d)
	in.Created, in.Decision = list[0].Created, d
	wantErr(t, fmt.Sprintf("SettleAsk(%q)", name), err, nil)
	wantEqual(t, fmt.Sprintf("SettleAsk(%q)", name), got, in)
}

func hostileApproval(t *testing.T, s store.Store, name string) {
	t.Helper()
	in := store.Approval{File: name, Server: name, Hash: name, Shown: name, By: name, At: store.Clock(time.Now())}
	wantErr(t, fmt.Sprintf("Approve(%q)", name), s.Approve(t.Context(), in), nil)
	got, ok, err := s.Approved(t.Context(), name, name, name)
	if err != nil || !ok {
		t.Errorf("Approved(%q): got %v, %v, want true", name, ok, err)
	}
	wantEqual(t, fmt.Sprintf("Approved(%q)", name), got, in)
}

func hostilePin(t *testing.T, s store.Store, name string) {
	t.Helper()
	in := store.Pin{Source: name, Server: name, Tool: name, Hash: name, At: store.Clock(time.Now())}
	wantErr(t, fmt.Sprintf("SetPin(%q)", name), s.SetPin(t.Context(), in), nil)
	got, ok, err := s.Pin(t.Context(), name, name, name)
	if err != nil || !ok {
		t.Errorf("Pin(%q): got %v, %v, want true", name, ok, err)
	}
	wantEqual(t, fmt.Sprintf("Pin(%q)", name), got, in)
}

// testBadNames: what is no ID is refused by every method, before anything else.
func testBadNames(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	ctx := t.Context()
	create(t, s, "r")
	tests := []struct {
		id   string
		want error
	}{
		{"", store.ErrInvalid}, {"a\x00b", store.ErrInvalid}, {"a\nb", store.ErrInvalid}, {"\x1b[2J", store.ErrInvalid},
		{"\xff\xfe", store.ErrInvalid}, {"a\u202eb", store.ErrInvalid}, {"\u200b", store.ErrInvalid}, {"\U000e0041", store.ErrInvalid},
		{strings.Repeat("x", store.MaxID+1), store.ErrTooLarge}, {strings.Repeat("x", 1<<20), store.ErrTooLarge},
	}
	for _, tt := range tests {
		calls := map[string]error{
			"Renew":   s.Renew(ctx, tt.id, "w", 1, ttl),
			"Renew2":  s.Renew(ctx, "r", tt.id, 1, ttl),
			"Release": s.Release(ctx, tt.id, "w", 1),
			"Delete":  s.Delete(ctx, tt.id),
			"OpenAsk": s.OpenAsk(ctx, store.Ask{ID: tt.id, Kind: "k"}),
			"Kind":    s.OpenAsk(ctx, store.Ask{ID: "q", Kind: tt.id}),
		}
		_, calls["Create"] = s.Create(ctx, store.Run{ID: tt.id}, "w", ttl)
		_, calls["Create2"] = s.Create(ctx, store.Run{ID: "n"}, tt.id, ttl)
		_, calls["Create3"] = s.Create(ctx, store.Run{ID: "n"}, "w", ttl, store.Event{Type: tt.id})
		_, calls["Append"] = s.Append(ctx, store.Append{Run: tt.id, Owner: "w", Epoch: 1, After: store.Unchecked})
		_, calls["Append2"] = s.Append(ctx, store.Append{Run: "r", Owner: "w", Epoch: 1, After: store.Unchecked, Events: []store.Event{{Type: tt.id}}})
		_, calls["Events"] = s.Events(ctx, tt.id, 0, 0)
		_, calls["Run"] = s.Run(ctx, tt.id)
		_, calls["Claim"] = s.Claim(ctx, tt.id, "w", ttl)
		_, calls["Ask"] = s.Ask(ctx, tt.id)
		_, calls["SettleAsk"] = s.SettleAsk(ctx, tt.id, store.Decision{Status: store.AskAccepted})
		_, calls["Record"] = s.Record(ctx, tt.id, "w", "k")
		_, calls["Record2"] = s.Record(ctx, "k", "w", tt.id)
		_, calls["Records"] = s.Records(ctx, store.RecordQuery{Kind: tt.id})
		calls["DeleteRecord"] = s.DeleteRecord(ctx, "k", "w", tt.id)
		for what, err := range calls {
			wantErr(t, fmt.Sprintf("%s(%.20q)", what, tt.id), err, tt.want)
		}
	}
}

func testLimits(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	ctx := t.Context()
	r := create(t, s, "r")
	long := strings.Repeat("x", store.MaxText+1)
	add := func(events ...store.Event) error {
		_, err := s.Append(ctx, store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: events})
		return err
	}
	makeRun := func(run store.Run, lease time.Duration) error { _, err := s.Create(ctx, run, "w", lease); return err }
	list := func(q store.Query) error { _, err := s.Runs(ctx, q); return err }
	asks := func(q store.AskQuery) error { _, err := s.Asks(ctx, q); return err }
	pin := func(tool string) error { _, _, err := s.Pin(ctx, "f", "s", tool); return err }
	settle := func(d store.Decision) error { _, err := s.SettleAsk(ctx, "q", d); return err }
	large := json.RawMessage(`"` + strings.Repeat("x", store.MaxBody-1) + `"`)
	half := json.RawMessage(`"` + strings.Repeat("x", store.MaxBody-2) + `"`)
	tests := []struct {
		what string
		err  error
		want error
	}{
		{"a body above 16 MiB", add(store.Event{Type: "e", Body: large}), store.ErrTooLarge},
		{"bodies above 32 MiB", add(store.Event{Type: "e", Body: half}, store.Event{Type: "e", Body: half}, event("e", 1)), store.ErrTooLarge},
		{"too many events", add(make([]store.Event, store.MaxEvents+1)...), store.ErrTooLarge},
		{"a key too long", add(store.Event{Type: "e", Key: long}), store.ErrTooLarge},
		{"a key with NUL", add(store.Event{Type: "e", Key: "a\x00"}), store.ErrInvalid},
		{"a key not UTF-8", add(store.Event{Type: "e", Key: "\xff"}), store.ErrInvalid},
		{"a body that is not JSON", add(store.Event{Type: "e", Body: json.RawMessage(`{`)}), store.ErrInvalid},
		{"two values in a body", add(store.Event{Type: "e", Body: json.RawMessage(`1 2`)}), store.ErrInvalid},
		{"a time out of range", add(store.Event{Type: "e", Time: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}), store.ErrInvalid},
		{"a title too long", makeRun(store.Run{ID: "n", Title: long}, ttl), store.ErrTooLarge},
		{"an unknown state", makeRun(store.Run{ID: "n", State: "sleeping"}, ttl), store.ErrInvalid},
		{"born ended", makeRun(store.Run{ID: "n", State: store.Finished}, ttl), store.ErrInvalid},
		{"no lease", makeRun(store.Run{ID: "n"}, 0), store.ErrInvalid},
		{"a negative lease", makeRun(store.Run{ID: "n"}, -1), store.ErrInvalid},
		{"an endless lease", makeRun(store.Run{ID: "n"}, 1<<62), store.ErrInvalid},
		{"a foreign cursor", list(store.Query{After: "x"}), store.ErrInvalid},
		{"a cursor without ID", list(store.Query{After: "1."}), store.ErrInvalid},
		{"an unknown state asked for", list(store.Query{States: []store.RunState{"sleeping"}}), store.ErrInvalid},
		{"too many states", list(store.Query{States: make([]store.RunState, 1000)}), store.ErrTooLarge},
		{"an agent too long", list(store.Query{Agent: long}), store.ErrTooLarge},
		{"a foreign ask cursor", asks(store.AskQuery{After: "x"}), store.ErrInvalid},
		{"an unknown status asked for", asks(store.AskQuery{Status: "maybe"}), store.ErrInvalid},
		{"a payload too large", s.OpenAsk(ctx, store.Ask{ID: "q", Kind: "k", Payload: large}), store.ErrTooLarge},
		{"a path too long", s.OpenAsk(ctx, store.Ask{ID: "q", Kind: "k", Path: make([]string, store.MaxPath+1)}), store.ErrTooLarge},
		{"an answer that is not JSON", settle(store.Decision{Status: store.AskAccepted, Answer: json.RawMessage(`}`)}), store.ErrInvalid},
		{"a file too long", s.Approve(ctx, store.Approval{File: long, Server: "s", Hash: "h"}), store.ErrTooLarge},
		{"a file too long to revoke", s.Revoke(ctx, long, "s", "h"), store.ErrTooLarge},
		{"a tool too long", s.SetPin(ctx, store.Pin{Source: "f", Server: "s", Tool: long, Hash: "h"}), store.ErrTooLarge},
		{"a hash with NUL", s.SetPin(ctx, store.Pin{Source: "f", Server: "s", Tool: "t", Hash: "\x00"}), store.ErrInvalid},
		{"a tool too long to look for", pin(long), store.ErrTooLarge},
		{"a tool too long to forget", s.Unpin(ctx, "f", "s", long), store.ErrTooLarge},
	}
	for _, tt := range tests {
		wantErr(t, tt.what, tt.err, tt.want)
	}
	got, err := s.Run(ctx, "r")
	wantErr(t, "Run", err, nil)
	wantEqual(t, "Run after what was refused", got, r)
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a string of valid UTF-8 always has a JSON form
	}
	return b
}
