package streamable_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// SHL-14, SHL-22, SHL-40, SHL-41, SHL-42, SHL-43: how a stream goes on whose connection ended. The
// server's answer to the POST is always a priming event and the end.
func TestResume(t *testing.T) {
	answer := event("3", result(mcp.IntID(7)))
	tests := []struct {
		name  string
		first string                                   // events on the POST's stream
		get   func(w http.ResponseWriter, last string) // answers a GET
		gets  []time.Duration                          // when they came
		fails string
		lost  bool
	}{
		{"after a second", event("1", ""), func(w http.ResponseWriter, _ string) { streamEvents(w, answer) }, []time.Duration{time.Second}, "", false},
		{"after retry", "id: 1\nretry: 500\ndata:\n\n", func(w http.ResponseWriter, _ string) { streamEvents(w, answer) }, []time.Duration{500 * time.Millisecond}, "", false},
		{"at once", "id: 1\nretry: 0\n\n", func(w http.ResponseWriter, _ string) { streamEvents(w, answer) }, []time.Duration{0}, "", false},
		{"retry is bounded", "id: 1\nretry: 999999999\n\n", func(w http.ResponseWriter, _ string) { streamEvents(w, answer) }, []time.Duration{30 * time.Second}, "", false},
		{"retry after the id", event("1", "") + "retry: 2000\n\n", func(w http.ResponseWriter, _ string) { streamEvents(w, answer) }, []time.Duration{2 * time.Second}, "", false},
		{"without an id", ":comment\n\n", nil, nil, "without an answer", false},
		{"an id that was taken back", event("1", "") + "id:\n\n", nil, nil, "without an answer", false},
		{"an id that no header can carry", event("1", "") + event("\x01", ""), nil, nil, "without an answer", false},
		{"400", event("1", ""), func(w http.ResponseWriter, _ string) { w.WriteHeader(400) }, []time.Duration{time.Second}, "cannot be resumed: Bad Request", false},
		{"405", event("1", ""), func(w http.ResponseWriter, _ string) { w.WriteHeader(405) }, []time.Duration{time.Second}, "cannot be resumed", false},
		{"404", event("1", ""), func(w http.ResponseWriter, _ string) { w.WriteHeader(404) }, []time.Duration{time.Second}, "ended the session", true},
		{"401", event("1", ""), func(w http.ResponseWriter, _ string) { w.WriteHeader(401) }, []time.Duration{time.Second}, "Unauthorized", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, legacy(func(w http.ResponseWriter, r *request) {
				switch r.Method {
				case "GET":
					if got := r.Header.Get("Last-Event-Id"); got != "1" {
						t.Errorf("Last-Event-ID: got %q, want 1", got)
					}
					tt.get(w, r.Header.Get("Last-Event-Id"))
				case "POST":
					streamEvents(w, tt.first)
				}
			}), func(k *kit) {
				k.session()
				k.request(7, "tools/call")
				time.Sleep(time.Minute)
				var got []time.Duration
				for _, r := range k.server.requests("GET") {
					got = append(got, r.At)
				}
				if !slices.Equal(got, tt.gets) {
					t.Errorf("GETs at %v, want %v", got, tt.gets)
				}
				err := k.sink.failure(7)
				if tt.fails == "" {
					if frames := k.sink.all(); err != nil || frames[len(frames)-1] != "7: "+result(mcp.IntID(7)) {
						t.Errorf("got %q, %v", frames, err)
					}
				} else if err == nil || !strings.Contains(err.Error(), tt.fails) || errors.Is(err, call.ErrUnsent) {
					t.Errorf("failure: got %v, want %q", err, tt.fails)
				}
				if losses := k.sink.losses(); tt.lost != (len(losses) == 1) {
					t.Errorf("losses: %v", losses)
				}
				if n := len(k.server.requests("POST")); n != 3 { // never again (SHL-43)
					t.Errorf("%d POSTs, want 3", n)
				}
			})
		})
	}
}

// SHL-40: a server may make the client poll as long as the work takes.
func TestManyResumptions(t *testing.T) {
	const polls = 50
	n := 0
	bubble(t, legacy(func(w http.ResponseWriter, r *request) {
		if r.Method == "DELETE" {
			return
		}
		n++
		if n > polls {
			streamEvents(w, event("", result(mcp.IntID(7))))
			return
		}
		streamEvents(w, "retry: 100\nid: "+strings.Repeat("i", n)+"\n\n")
	}), func(k *kit) {
		k.session()
		k.request(7, "tools/call")
		time.Sleep(3 * time.Second)
		if got := len(k.server.requests("GET")); got >= 10 { // ROB-8
			t.Errorf("%d GETs in 3 s", got)
		}
		time.Sleep(time.Hour)
		if got := k.sink.all(); len(got) != 2 || k.sink.fails != 0 {
			t.Errorf("frames: got %q, failures %v", got, k.sink.failed)
		}
	})
}

// ROB-8: resumptions that bring nothing have an end.
func TestBarrenResumptions(t *testing.T) {
	for name, get := range map[string]func(http.ResponseWriter){
		"empty streams": stream,
		"503":           func(w http.ResponseWriter) { w.WriteHeader(503) },
		"cut off":       func(w http.ResponseWriter) { streamEvents(w, "data: {"); panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, legacy(func(w http.ResponseWriter, r *request) {
				switch r.Method {
				case "GET":
					get(w)
				case "POST":
					streamEvents(w, event("1", ""))
				}
			}), func(k *kit) {
				k.session()
				k.request(7, "tools/call")
				time.Sleep(time.Hour)
				if n := len(k.server.requests("GET")); n != 5 {
					t.Errorf("%d GETs, want 5", n)
				}
				if err := k.sink.failure(7); err == nil || !strings.Contains(err.Error(), "cannot be resumed") {
					t.Errorf("failure: got %v", err)
				}
			})
		})
	}
}

// Cancelling, and closing, end a request that waits to be resumed.
func TestCancelWhileResuming(t *testing.T) {
	bubble(t, legacy(func(w http.ResponseWriter, r *request) {
		switch {
		case r.Kind == mcp.KindRequest:
			streamEvents(w, "id: 1\nretry: 20000\n\n")
		case r.Method == "GET":
			t.Error("a cancelled request is resumed")
		}
	}), func(k *kit) {
		k.session()
		k.request(7, "tools/call")
		k.request(8, "tools/call")
		time.Sleep(time.Second)
		k.cancel(7)
		time.Sleep(time.Second)
		if k.sink.fails != 0 {
			t.Errorf("failures: %v", k.sink.failed)
		}
	})
}

// Fault: an answer cut at every byte, by the end of the connection and by the end of the stream. A
// stream with ids is resumed, and the answer comes exactly once; any other is lost, never half read.
func TestCutEverywhere(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`
	events := []string{"id: 0\nretry: 100\ndata:\n\n", event("1", note), event("2", result(mcp.IntID(7)))}
	whole := strings.Join(events, "")
	json := result(mcp.IntID(7))
	type cut struct {
		kind string // of the answer
		at   int
		rude bool
	}
	var cuts []cut
	for at := 0; at <= len(whole); at++ {
		cuts = append(cuts, cut{"stream", at, false}, cut{"stream", at, true}, cut{"modern", at, true})
	}
	for at := 0; at < len(json); at++ {
		cuts = append(cuts, cut{"json", at, true}, cut{"short", at, true})
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, c := range cuts {
		bubble(t, legacy(func(w http.ResponseWriter, r *request) {
			switch {
			case r.Method == "DELETE":
				return
			case r.Method == "GET": // the rest, from the beginning of an event
				last := strings.IndexByte("012", r.Header.Get("Last-Event-Id")[0])
				streamEvents(w, strings.Join(events[last+1:], ""))
				return
			case c.kind == "json":
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(json[:c.at]))
				w.(http.Flusher).Flush()
			case c.kind == "short":
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", "57")
				_, _ = w.Write([]byte(json[:c.at]))
				w.(http.Flusher).Flush()
			default:
				streamEvents(w, whole[:c.at])
			}
			if c.rude {
				panic(http.ErrAbortHandler)
			}
		}), func(k *kit) {
			if c.kind == "modern" {
				k.Speak(mcp.V2026_07_28)
			} else {
				k.session()
			}
			k.request(7, "tools/call")
			time.Sleep(10 * time.Second)
			answers := 0
			for _, f := range k.sink.all() {
				if f == "7: "+json {
					answers++
				} else if !strings.Contains(f, "initialize") && f != "7: "+note && !strings.HasPrefix(f, "1: ") {
					t.Errorf("%+v: a frame that nobody sent: %q", c, f)
				}
			}
			err := k.sink.failure(7)
			resumable := c.kind == "stream" && c.at >= len(events[0])
			complete := c.kind != "json" && c.kind != "short" && c.at == len(whole)
			switch {
			case resumable || complete:
				if answers != 1 || err != nil {
					t.Errorf("%+v: %d answers, failure %v; want one", c, answers, err)
				}
			case answers != 0 || err == nil || errors.Is(err, call.ErrUnsent) || k.sink.fails != 1:
				t.Errorf("%+v: %d answers, failure %v; want a lost request", c, answers, err)
			}
			if c.kind == "modern" && len(k.server.requests("")) != 1 { // SHM-08
				t.Errorf("%+v: a modern request was sent again, or resumed", c)
			}
		})
	}
}

// The link is as good as new after what one request did to it.
func TestOthersGoOn(t *testing.T) {
	bubbleWith(t, streamable.Options{MaxRequests: 2}, func(w http.ResponseWriter, r *request) {
		if n, _ := r.ID.Int64(); n%2 == 0 {
			panic(http.ErrAbortHandler)
		}
		time.Sleep(time.Second)
		writeJSON(w, 200, result(r.ID))
	}, func(k *kit) {
		k.Speak(mcp.V2026_07_28)
		for id := int64(1); id <= 20; id++ {
			k.request(id, "tools/call")
		}
		time.Sleep(time.Minute)
		if n := len(k.sink.all()); n != 10 || k.sink.fails != 10 {
			t.Errorf("%d answers, %d failures, want 10 each", n, k.sink.fails)
		}
	})
}

// ROB-8: a server that wants to be asked again at once is asked so once.
func TestResumeAtOnce(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	bubble(t, legacy(func(w http.ResponseWriter, r *request) {
		if r.Method != "DELETE" {
			streamEvents(w, "retry: 0\n"+event("1", note))
		}
	}), func(k *kit) {
		k.session()
		k.request(7, "tools/call")
		time.Sleep(time.Second - time.Millisecond)
		polls := len(k.server.requests("GET"))
		k.cancel(7)
		time.Sleep(time.Second)
		before := len(k.server.requests("GET"))
		k.ListenGET() // the server's own stream is no better
		time.Sleep(time.Second - time.Millisecond)
		if own := len(k.server.requests("GET")) - before; polls != 10 || own != 10 {
			t.Errorf("%d and %d GETs in a second, want 10", polls, own)
		}
	})
}
