package oldsse

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

func serve(t *testing.T, h http.Handler) *http.Client { return memhttp.Serve(t, h) }

// A stream that is cut at any byte gives the messages that were complete, and the end
// of the link (SSE-05, ROB-2).
func TestCutAtEveryByte(t *testing.T) {
	const rest = ": c\n\ndata: {\"a\":\ndata: 1}\n\nid: 7\r\nevent: message\r\ndata: {}\r\n\r\nevent: x\ndata: y\n\ndata: [1]\n\n"
	for cut := range len(begin + rest) {
		synctest.Test(t, func(t *testing.T) {
			text := (begin + rest)[:cut]
			var want []string
			for _, m := range []struct{ until, frame string }{{"1}\n\n", "{\"a\":\n1}"}, {"{}\r\n\r", "{}"}, {"[1]\n\n", "[1]"}} {
				if strings.Contains(text, m.until) {
					want = append(want, m.frame)
				}
			}
			k := dial(t, &server{get: func(w *writer) {
				w.say(text)
				panic(http.ErrAbortHandler) // no end of the body
			}}, nil)
			if got := k.err == nil; got != (cut >= len(begin)) {
				t.Fatalf("cut at %d: Dial: got %v", cut, k.err)
			}
			if k.err != nil {
				return
			}
			synctest.Wait()
			frames, _, lost := k.all()
			if !reflect.DeepEqual(frames, want) || len(lost) != 1 || lost[0] == nil {
				t.Errorf("cut at %d: got frames %q, lost %v, want %q and an error", cut, frames, lost, want)
			}
		})
	}
}

// Every byte alone, an hour apart: the messages come all the same, and nothing is held
// that is not needed.
func TestSlowLoris(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := mustDial(t, &server{get: func(w *writer) {
			w.say(begin)
			for _, c := range "data: {\"a\":1}\n\n: x" {
				time.Sleep(time.Hour)
				w.say(string(c))
			}
			w.wait()
		}})
		time.Sleep(24 * time.Hour)
		if frames, _, lost := k.all(); !reflect.DeepEqual(frames, []string{`{"a":1}`}) || len(lost) > 0 {
			t.Errorf("got frames %q, lost %v", frames, lost)
		}
		start := time.Now()
		k.link.Close()
		if d := time.Since(start); d > 0 {
			t.Errorf("Close took %v in the middle of an event", d)
		}
	})
}

// WIRE-04, ROB-2, ROB-3, SECA-9: an event that is too long is skipped, whatever makes it
// so, and the link goes on.
func TestOversized(t *testing.T) {
	const most = 100 << 10
	tests := map[string]string{
		"one line":    "data: " + strings.Repeat("x", most+1) + "\n\n",
		"large":       "data: " + strings.Repeat("x", 10*most) + "\n\n",
		"many lines":  strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", most/1000+10) + "\n",
		"many fields": strings.Repeat("event: x\n", 100_000) + "\n",
		"an id":       "id: " + strings.Repeat("x", 1<<20) + "\n\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := dial(t, &server{get: func(w *writer) {
					w.say(begin + text + "data: after\n\n")
					w.wait()
				}}, func(o *Options) { o.MaxMessage = most })
				if k.err != nil {
					t.Fatal(k.err)
				}
				synctest.Wait()
				frames, _, lost := k.all()
				if len(lost) != 0 || len(frames) != 1 || frames[0] != "after" || len(k.skips) != 1 || !strings.Contains(k.skips[0], "longer than 102400 bytes") {
					t.Fatalf("got the frames %q, skipped %q, lost %v", frames, k.skips, lost)
				}
			})
		})
	}
}

// A message of exactly the limit is taken.
func TestLargest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := mustDial(t, &server{get: func(w *writer) {
			w.say(begin + "data: " + strings.Repeat("x", defaultMessage) + "\n\n")
			w.wait()
		}})
		synctest.Wait()
		if frames, _, lost := k.all(); len(frames) != 1 || len(frames[0]) != defaultMessage || len(lost) > 0 {
			t.Errorf("got %d frames, lost %v", len(frames), lost)
		}
	})
}

func TestFlood(t *testing.T) {
	for name, piece := range map[string]string{
		"comments":       ": x\n\n",
		"unknown events": "event: x\ndata: y\n\n",
		"endpoints":      "event: endpoint\ndata: /y\n\n",
		"empty":          "data:\n\n",
		"blank lines":    "\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 4 << 20
				chunk := strings.Repeat(piece, 64<<10/len(piece))
				k := mustDial(t, &server{get: func(w *writer) {
					w.say(begin)
					for n := 0; n < size; n += len(chunk) {
						if w.say(chunk) != nil {
							return
						}
					}
					w.say("\n\ndata: {}\n\n")
					w.wait()
				}})
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				synctest.Wait()
				runtime.GC()
				runtime.ReadMemStats(&after)
				if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2<<20 {
					t.Errorf("a flood of %d bytes left %d bytes on the heap", size, grown)
				}
				if frames, _, lost := k.all(); !reflect.DeepEqual(frames, []string{"{}"}) || len(lost) > 0 {
					t.Errorf("got %d frames, lost %v, want the one message", len(frames), lost)
				}
			})
		})
	}
}

// SECA-9
func TestCompressedBomb(t *testing.T) {
	var bomb bytes.Buffer
	z, _ := gzip.NewWriterLevel(&bomb, gzip.BestCompression)
	io.WriteString(z, begin)
	line := bytes.Repeat([]byte(": xxxxxxxxxx\n"), 10_000)
	for range 40 {
		z.Write(line)
	}
	z.Close()
	synctest.Test(t, func(t *testing.T) {
		k := dialHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}), nil)
		if k.err != nil {
			t.Fatal(k.err)
		}
		synctest.Wait()
		if _, _, lost := k.all(); len(lost) != 1 || !errors.Is(lost[0], httpguard.ErrBomb) {
			t.Errorf("got lost %v, want ErrBomb", lost)
		}
	})
}

// SECA-13: whatever comes as a message is passed on as it is; it is not for a
// transport to judge (WIRE-01).
func TestOddMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := []string{"x", "{", `{"jsonrpc":"2.0","id":77,"result":{}}`, "\x00", "\xff\xfe", " ", `"endpoint"`}
		k := mustDial(t, &server{get: func(w *writer) {
			w.say(begin)
			for _, m := range odd {
				fmt.Fprintf(w, "data: %s\n\n", m)
			}
			w.say("")
			w.wait()
		}})
		synctest.Wait()
		if frames, _, lost := k.all(); !reflect.DeepEqual(frames, odd) || len(lost) > 0 {
			t.Errorf("got frames %q, lost %v, want %q", frames, lost, odd)
		}
	})
}

// A link that is lost and closed while much is under way leaves nothing behind.
func TestEndsInTheMiddleOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := mustDial(t, &server{
			get: func(w *writer) {
				w.say(begin)
				time.Sleep(3 * time.Second)
				panic(http.ErrAbortHandler)
			},
			post: func(_ http.ResponseWriter, p *posted) { <-p.ctx.Done() },
		})
		for i := range 50 {
			k.link.Send(ask(i))
		}
		time.Sleep(4 * time.Second)
		if _, _, lost := k.all(); len(lost) != 1 {
			t.Errorf("got lost %v, want once", lost)
		}
		start := time.Now()
		k.link.Close()
		if d := time.Since(start); d > drainTime+endTime {
			t.Errorf("Close took %v", d)
		}
		if k.link.tasks != 0 {
			t.Errorf("after Close %d goroutines are left", k.link.tasks)
		}
	})
}
