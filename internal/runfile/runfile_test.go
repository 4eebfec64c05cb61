package runfile_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// recorded writes two runs into a store, one of which has started the other and waits for a person.
func recorded(t *testing.T) store.Store {
	t.Helper()
	s := memstore.New(nil)
	ask := store.Ask{ID: "n-1-0", Run: "r1", Kind: runlog.AskKind, Tool: "write", Payload: []byte(`{"tool":"write"}`), Hash: "h", Decision: store.Decision{Status: store.AskPending}}
	runs := []struct {
		head    store.Run
		state   store.RunState
		entries []runlog.Entry
		asks    []store.Ask
	}{
		{store.Run{ID: "r1", Agent: "a", Title: "t"}, store.Waiting, []runlog.Entry{
			{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: "a", Model: "m", Input: []llm.Message{llm.User("go")}, Nonce: "n", MaxResult: 100}},
			{Type: runlog.ModelIntentType, Body: &runlog.ModelIntent{Turn: 1}},
			{Type: store.ModelResult, Body: &runlog.ModelResult{Turn: 1, Message: llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{
				&mcp.ToolUseContent{ID: "c", Name: "write", Input: []byte(`{"b":1,"a":"x"}`)}}}}},
			{Type: store.ToolIntent, Key: "n-1-0", Body: &runlog.ToolIntent{Turn: 1, CallID: "c", Tool: "write", Arguments: []byte(`{}`)}},
			{Type: store.AskOpened, Key: "n-1-0", Body: &runlog.AskOpened{Ask: ask}},
			{Type: "of.later", Body: []byte(`{"x":1.50}`)},
		}, []store.Ask{ask}},
		{store.Run{ID: "sub-1", Agent: "b", Parent: "r1", Epoch: 1}, store.Finished, []runlog.Entry{
			{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: "b", Model: "m", Input: []llm.Message{llm.User("sub")}, Nonce: "o"}},
			{Type: store.RunFinished, Body: &runlog.RunFinished{State: store.Finished, Text: "done"}},
		}, nil},
	}
	for _, r := range runs {
		for i := range r.entries {
			if raw, ok := r.entries[i].Body.([]byte); ok {
				ev, err := runlog.Decode(store.Event{Type: r.entries[i].Type, Body: raw})
				if err != nil {
					t.Fatal(err)
				}
				r.entries[i] = ev
			}
		}
		head, err := runlog.Write(t.Context(), s, r.head, "test", time.Minute, r.entries, r.asks)
		if err == nil {
			_, err = s.Append(t.Context(), store.Append{Run: head.ID, Owner: head.Owner, Epoch: head.Epoch, After: head.Seq, State: r.state})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func load(t *testing.T, s store.Store) []runfile.Recording {
	t.Helper()
	all, err := runfile.Load(t.Context(), s, "r1")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFile: what was exported, read and imported is the same, with its open question, in another
// store; a second time it is refused.
func TestFile(t *testing.T) {
	all := load(t, recorded(t))
	if len(all) != 2 || all[1].Run.ID != "sub-1" {
		t.Fatalf("Load: got %+v, want the run and its sub-agent's", all)
	}
	var file bytes.Buffer
	if err := runfile.Write(&file, all); err != nil {
		t.Fatal(err)
	}
	read, err := runfile.Read(&file)
	if err != nil || !reflect.DeepEqual(read, all) {
		t.Fatalf("Read: got %+v, %v, want %+v", read, err, all)
	}
	other := memstore.New(nil)
	if err := runfile.Import(t.Context(), other, read, "import"); err != nil {
		t.Fatal(err)
	}
	for i, rec := range load(t, other) {
		if rec.Run.State != all[i].Run.State || rec.Run.Leased(time.Now()) || len(rec.Events) != len(all[i].Events) {
			t.Errorf("the import of %s: got %+v with %d events, want %+v with %d", all[i].Run.ID, rec.Run, len(rec.Events), all[i].Run, len(all[i].Events))
		}
		for j, ev := range rec.Events {
			if ev.Type != all[i].Events[j].Type || !ev.Time.Equal(all[i].Events[j].Time) || string(ev.Body) != string(all[i].Events[j].Body) {
				t.Errorf("the import of %s, event %d: got %+v, want %+v", rec.Run.ID, j+1, ev, all[i].Events[j])
			}
		}
	}
	if a, err := other.Ask(t.Context(), "n-1-0"); err != nil || a.Status != store.AskPending {
		t.Errorf("the question: got %+v, %v, want it open", a, err)
	}
	if err := runfile.Import(t.Context(), other, read, "import"); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second import: got %v, want ErrExists", err)
	}
}

// TestReadRefuses: a file that is no export is refused with the line that is wrong.
func TestReadRefuses(t *testing.T) {
	head := `{"troupe":1,"run":{"id":"r","state":"finished"}}` + "\n"
	event := `{"run":"r","seq":1,"type":"run.started","body":{}}` + "\n"
	for name, test := range map[string]struct{ file, want string }{
		"empty":          {"", "empty"},
		"no JSON":        {"hello\n", "line 1: "},
		"an event first": {event, "line 1: want a run"},
		"a later one":    {strings.Replace(head, ":1", ":9", 1), "version 9"},
		"no ID":          {`{"troupe":1,"run":{"state":"running"}}` + "\n", "line 1: "},
		"no state":       {`{"troupe":1,"run":{"id":"r"}}` + "\n", "unknown state"},
		"a gap":          {head + strings.Replace(event, `"seq":1`, `"seq":2`, 1), "line 2: want event 1 of the run r, got 2"},
		"another run's":  {head + strings.Replace(event, `"run":"r"`, `"run":"s"`, 1), `of "s"`},
		"a wrong body":   {head + strings.Replace(event, `{}}`, `7}`, 1), "line 2: "},
		"something else": {head + `{"a":1}` + "\n", "line 2: want a run"},
	} {
		if got, err := runfile.Read(strings.NewReader(test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %+v, %v, want an error with %q", name, got, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"troupe":1,"run":{"id":"r","state":"finished"}}` + "\n" + `{"run":"r","seq":1,"type":"run.started","body":{"input":[]}}`))
	f.Add([]byte(`{"troupe":1,"run":{"id":"r"}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		all, err := runfile.Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := runfile.Write(&out, all); err != nil {
			t.Fatal(err)
		}
		again, err := runfile.Read(&out)
		if err != nil || len(again) != len(all) {
			t.Fatalf("what was read and written reads as %d runs, %v, want %d", len(again), err, len(all))
		}
		redacted, err := runfile.Redact(all)
		if err != nil || len(redacted) != len(all) {
			t.Fatalf("Redact: %v", err)
		}
		for i := range all {
			if entries, err := all[i].Entries(); err == nil {
				runfile.Steps(entries)
			}
		}
	})
}

// TestRedact: secrets go by their form, by what stands before them, and by the names of members;
// the rest stays.
func TestRedact(t *testing.T) {
	gone := []string{
		"ghp_abcdefghijklmnopqrstuvwxyz0123456789", "sk-proj-abcdefghijklmnop", "AKIAABCDEFGHIJKLMNOP", "hunter22", "open sesame", "tea at five",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "MIIEvQIBADANBg", "abcdefghijklmnopqrstuvwx", "pa55w0rd", "v1.sealed",
	}
	body := `{"n":12345678901234567890,"tokens":7,"text":"use ` + gone[0] + ` or ` + gone[1] + `, ` + gone[2] + `","deep":[{"apiKey":"` + gone[4] + `","customer":"` + gone[5] + `"}],` +
		`"a":"password=` + gone[3] + ` kept","b":"` + gone[6] + `","c":"-----BEGIN PRIVATE KEY-----\n` + gone[7] + `\n-----END PRIVATE KEY-----",` +
		`"d":"Authorization: Bearer ` + gone[8] + `","e":"postgres://ada:` + gone[9] + `@db/x","requestState":"` + gone[10] + `"}`
	all := []runfile.Recording{{Run: store.Run{ID: "r", Title: "with " + gone[0]}, Events: []store.Event{{Type: "x", Body: []byte(body)}, {Type: "y"}}}}
	out, err := runfile.Redact(all, "Customer")
	if err != nil {
		t.Fatal(err)
	}
	text := out[0].Run.Title + string(out[0].Events[0].Body)
	for _, secret := range gone {
		if strings.Contains(text, secret) {
			t.Errorf("%q is still in %s", secret, text)
		}
	}
	for _, kept := range []string{"12345678901234567890", `"tokens":7`, "kept", "use ", "with ", "db/x"} {
		if !strings.Contains(text, kept) {
			t.Errorf("%q is gone from %s", kept, text)
		}
	}
	if string(all[0].Events[0].Body) != body {
		t.Error("the original was changed")
	}
}

// TestSteps: results of calls made at once come in the order of the calls, arguments in the order of
// their names.
func TestSteps(t *testing.T) {
	all := load(t, recorded(t))
	entries, err := all[0].Entries()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"n-1-10", "n-1-2"} {
		entries = append(entries, runlog.Entry{Type: store.ToolResult, Key: key, Body: &runlog.ToolResult{Tool: key, Result: mcp.ErrorResult("a\nb")}})
	}
	want := []string{"agent a, model m", "user: go", `turn 1 calls write {"a":"x","b":1}`, `error of n-1-2: a\nb`, `error of n-1-10: a\nb`}
	if got := runfile.Steps(entries); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
