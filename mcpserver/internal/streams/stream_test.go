package streams

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// WIRE-10, WIRE-11, WIRE-13, SHL-20, SHL-40: what a stream begins with.
func TestStreamBegins(t *testing.T) {
	eachLegacy(t, func(t *testing.T, k *streamKit) {
		r := k.get("")
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		} {
			if got := r.resp.Header.Get(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		if k.version == mcp.V2025_11_25 {
			r.prime()
		}
		if err := k.streams.push([]byte(nthMessage(1))); err != nil {
			t.Fatal(err)
		}
		e := r.next()
		if string(e.Data) != nthMessage(1) {
			t.Errorf("got %q, want %q", e.Data, nthMessage(1))
		}
		if want := k.version >= mcp.V2025_03_26; e.HasID != want {
			t.Errorf("%s: an event has an id: got %t, want %t", k.version, e.HasID, want)
		}
	})
}

// SHL-30, SHL-31: each message goes out on exactly one of the streams.
func TestStreamsOneEach(t *testing.T) {
	eachLegacy(t, func(t *testing.T, k *streamKit) {
		const streams, count = 3, 30
		seen := make(chan string, count)
		for range streams {
			r := k.get("")
			go func() {
				for {
					e, err := r.in.Next()
					if err != nil {
						return
					}
					if len(e.Data) > 0 {
						seen <- string(e.Data)
					}
				}
			}()
		}
		post, posted := k.post()
		if k.version == mcp.V2025_11_25 {
			posted.prime()
		}
		for n := range count {
			if err := k.streams.push([]byte(nthMessage(n))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(seen)
		times := make(map[string]int)
		for text := range seen {
			times[text]++
		}
		for n := range count {
			if times[nthMessage(n)] != 1 {
				t.Errorf("message %d: came %d times, want once", n, times[nthMessage(n)])
			}
		}
		post.Finish([]byte(nthMessage(100))) // SHL-32: what is a request's stays with it
		posted.want(nthMessage(100))
		posted.wantEnd()
	})
}

// SHL-32: what belongs to no request waits for a stream, within bounds.
func TestStreamsQueue(t *testing.T) {
	eachLegacy(t, func(t *testing.T, k *streamKit) {
		for n := range maxPending {
			if err := k.streams.push([]byte(nthMessage(n))); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.streams.push([]byte("too many")); !errors.Is(err, errBacklog) {
			t.Errorf("push with a full queue: got %v, want %v", err, errBacklog)
		}
		if err := k.streams.Write([]byte("too many")); err != nil { // the session goes on
			t.Errorf("write with a full queue: got %v, want nil", err)
		}
		r := k.get("")
		if k.version == mcp.V2025_11_25 {
			r.prime()
		}
		r.want(nthMessages(0, maxPending-1)...)
		if err := k.streams.push([]byte(nthMessage(1000))); err != nil {
			t.Error(err)
		}
		r.want(nthMessage(1000))
	})
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		large := make([]byte, maxPendingBytes/2+1)
		if err := k.streams.push(large); err != nil {
			t.Fatal(err)
		}
		if err := k.streams.push(large); !errors.Is(err, errBacklog) {
			t.Errorf("push beyond the bytes of the queue: got %v, want %v", err, errBacklog)
		}
	})
}

// SHL-30: streams that have lost their connection make room for new ones.
func TestStreamsMany(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		var open []*sseClient
		for range maxGets {
			open = append(open, k.get(""))
		}
		if resp := k.do(http.MethodGet, ""); resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("one stream too many: got status %d, want 429", resp.StatusCode)
		}
		open[3].resp.Body.Close()
		synctest.Wait()
		k.get("").prime()
		if got := k.streams.Connections(); got != maxGets {
			t.Errorf("got %d connections, want %d", got, maxGets)
		}
		for i, r := range open {
			if i != 3 {
				r.prime()
			}
		}
	})
}

// SHL-13, SHL-21: the answer is the last event of a POST's stream, and then it ends; the
// stream of a GET has none of it.
func TestStreamPost(t *testing.T) {
	eachLegacy(t, func(t *testing.T, k *streamKit) {
		get := k.get("")
		if k.version == mcp.V2025_11_25 {
			get.prime()
		}
		s, r := k.post()
		if k.version == mcp.V2025_11_25 {
			r.prime()
		}
		s.Send([]byte(nthMessage(1)))
		r.want(nthMessage(1))
		s.Send([]byte(nthMessage(2)))
		s.Finish([]byte(nthMessage(3)))
		s.Send([]byte("late"))
		r.want(nthMessage(2), nthMessage(3))
		r.wantEnd()
		if err := <-k.served; err != nil {
			t.Errorf("serve: got %v, want nil", err)
		}
		get.silent()
	})
}

// SHM-08: a stream without ids is over with its connection.
func TestStreamPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newStreamKit(t, mcp.V2026_07_28, nil)
		s, r := k.post()
		s.Send([]byte(nthMessage(1)))
		e := r.next()
		if e.HasID || e.HasRetry || string(e.Data) != nthMessage(1) {
			t.Errorf("got %+v, want %s without an id or a retry", e, nthMessage(1))
		}
		s.CloseConn(time.Second) // it could not be resumed
		s.Send([]byte(nthMessage(2)))
		r.want(nthMessage(2))
		r.resp.Body.Close()
		if err := <-k.served; !errors.Is(err, errGone) {
			t.Errorf("serve: got %v, want %v", err, errGone)
		}
		s.Send([]byte(nthMessage(3)))
		if s.offer([]byte(nthMessage(4))) || s.connected() || len(s.queue) > 0 {
			t.Error("the stream goes on without its connection")
		}
	})
}

// SHL-40, SHL-22: the server closes the connection, the client comes again.
func TestStreamPolling(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		s, r := k.post()
		r.prime()
		s.Send([]byte(nthMessage(1)))
		last := r.want(nthMessage(1))
		for round := range 3 {
			pause := time.Duration(round+1) * 100 * time.Millisecond
			s.CloseConn(pause)
			s.CloseConn(pause) // twice is once
			if e := r.next(); !e.HasRetry || e.Retry != pause || len(e.Data) != 0 || e.HasID {
				t.Fatalf("before the end: got %+v, want a retry of %v", e, pause)
			}
			r.wantEnd()
			time.Sleep(pause)
			s.Send([]byte(nthMessage(round + 2))) // nobody listens
			r = k.get(last)
			last = r.want(nthMessage(round + 2))
		}
		s.CloseConn(0)
		if e := r.next(); e.Retry != k.set.Retry {
			t.Errorf("the pause: got %v, want %v", e.Retry, k.set.Retry)
		}
		r.wantEnd()
		s.Finish([]byte(nthMessage(100)))
		r = k.get(last)
		r.want(nthMessage(100))
		r.wantEnd()
		if err := <-k.served; err != nil {
			t.Errorf("serve: got %v, want nil", err)
		}
	})
}

// SHL-40: it may close at once, when nothing but the priming event has been sent, and
// even before.
func TestStreamPollingAtOnce(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		s := k.streams.Post(k.version)
		s.CloseConn(time.Millisecond)
		s.Send([]byte(nthMessage(1)))
		k.client = nil
		server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				k.served <- s.Serve(w, r)
				return
			}
			k.streams.Get(w, r, k.version, time.Time{})
		})
		k.client = serveInMemory(t, server)
		r := k.read(k.do(http.MethodPost, ""))
		first := r.prime()
		if e := r.next(); e.Retry != time.Millisecond {
			t.Errorf("the pause: got %v, want 1ms", e.Retry)
		}
		r.wantEnd()
		s.Finish([]byte(nthMessage(2)))
		r = k.get(first)
		r.want(nthMessage(1), nthMessage(2))
		r.wantEnd()
	})
}

// SHL-14: earlier revisions do not know of it.
func TestStreamPollingEarlier(t *testing.T) {
	eachLegacy(t, func(t *testing.T, k *streamKit) {
		if k.version == mcp.V2025_11_25 {
			return
		}
		s, r := k.post()
		s.CloseConn(time.Second)
		s.Finish([]byte(nthMessage(1)))
		r.want(nthMessage(1))
		r.wantEnd()
	})
}

// WIRE-13, SUB-12: a quiet stream says that it is alive, and nothing ends it for being
// quiet.
func TestStreamKeepAlive(t *testing.T) {
	eachLegacy(t, func(t *testing.T, k *streamKit) {
		r := k.get("")
		comments := make(chan time.Time, 1000)
		go func() {
			buf := make([]byte, 1<<10)
			for {
				n, err := r.resp.Body.Read(buf)
				if err != nil {
					return
				}
				if strings.HasPrefix(string(buf[:n]), ":") {
					comments <- time.Now()
				}
			}
		}()
		synctest.Wait()
		before := time.Now()
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		count := len(comments)
		for range count {
			at := <-comments
			if quiet := at.Sub(before); quiet > k.set.KeepAlive {
				t.Fatalf("quiet for %v, want at most %v", quiet, k.set.KeepAlive)
			}
			before = at
		}
		if want := int(time.Hour / k.set.KeepAlive); count < want || count > want+1 {
			t.Errorf("got %d keep-alives in an hour, want %d", count, want)
		}
	})
}

// The clock stands still when there is nothing to look after.
func TestStreamClockRests(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		r := k.get("")
		r.prime()
		if err := k.streams.push([]byte(nthMessage(1))); err != nil {
			t.Fatal(err)
		}
		r.want(nthMessage(1))
		r.resp.Body.Close()
		time.Sleep(maxAge + 2*k.set.KeepAlive)
		synctest.Wait()
		k.set.mu.Lock()
		defer k.set.mu.Unlock()
		if k.set.ticks || k.set.conns != 0 || len(k.set.logs) != 0 || k.set.logged.Load() != 0 {
			t.Errorf("the clock runs: %t, with %d connections and %d logs of %d bytes", k.set.ticks, k.set.conns, len(k.set.logs), k.set.logged.Load())
		}
	})
}

// SECA-9: who does not read is not waited for; who does is not held up. What the slow
// one missed, it gets when it comes again.
func TestStreamSlowReader(t *testing.T) {
	inStreams(t, func(o *Options) { o.MaxBytes = 64 << 20 }, func(t *testing.T, k *streamKit) {
		slow, r := k.post()
		last := r.prime()
		quick, q := k.post()
		q.prime()
		text := `{"jsonrpc":"2.0","method":"` + strings.Repeat("m", 64<<10) + `"}`
		lengths := make(chan int, 100)
		go func() {
			defer close(lengths)
			for e, err := q.in.Next(); err == nil; e, err = q.in.Next() {
				lengths <- len(e.Data)
			}
		}()
		begun := time.Now()
		for range 40 { // less than the queue
			slow.Send([]byte(text))
			quick.Send([]byte(text))
			if got := <-lengths; got != len(text) {
				t.Fatalf("the quick one: got %d bytes, want %d", got, len(text))
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("sending took %v", took)
		}
		if err := <-k.served; !errors.Is(err, errSlow) {
			t.Errorf("serve of the slow one: got %v, want %v", err, errSlow)
		}
		if took := time.Since(begun); took > writeTime {
			t.Errorf("the slow one was waited for %v, want at most %v", took, writeTime)
		}
		quick.Finish([]byte(text))
		if got := <-lengths; got != len(text) {
			t.Errorf("the quick one's last: got %d bytes, want %d", got, len(text))
		}
		again := k.get(last)
		for range 40 {
			again.want(text)
		}
	})
}

// SECA-9, ROB-3: what waits for a slow reader is bounded.
func TestStreamQueueBound(t *testing.T) {
	for _, size := range []int{10, 100 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			inStreams(t, nil, func(t *testing.T, k *streamKit) {
				s, r := k.post()
				r.prime()
				text := []byte(strings.Repeat("x", size))
				for range 2 * maxQueue {
					s.Send(text)
					s.mutex().Lock()
					queued, bytes, kept, logged := len(s.queue), s.queued, len(s.log.entries)-s.log.head, s.log.bytes
					s.mutex().Unlock()
					if queued > maxQueue || bytes > maxQueuedBytes || kept > k.set.MaxEvents || logged > k.set.MaxBytes {
						t.Fatalf("%d events of %d bytes wait, and %d of %d are kept", queued, bytes, kept, logged)
					}
				}
				if err := <-k.served; !errors.Is(err, errSlow) {
					t.Errorf("serve: got %v, want %v", err, errSlow)
				}
			})
		})
	}
}

// A message larger than all bounds is sent all the same, alone.
func TestStreamLargeMessage(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		s, r := k.post()
		last := r.prime()
		large := strings.Repeat("x", maxQueuedBytes+1)
		s.Finish([]byte(large))
		r.in = newEventReader(r.resp.Body, 2*maxQueuedBytes)
		r.want(large)
		r.wantEnd()
		again := k.get(last) // and the newest is kept
		again.in = newEventReader(again.resp.Body, 2*maxQueuedBytes)
		again.want(large)
	})
}

// All streams end when the server shuts down, and there are no new ones.
func TestStreamShutdown(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		r := k.get("")
		r.prime()
		s, p := k.post()
		p.prime()
		s.Send([]byte(nthMessage(1)))
		if err := k.streams.push([]byte(nthMessage(2))); err != nil {
			t.Fatal(err)
		}
		k.set.Close()
		p.want(nthMessage(1))
		p.wantEnd()
		r.want(nthMessage(2))
		r.wantEnd()
		if resp := k.do(http.MethodGet, ""); resp.StatusCode == http.StatusOK {
			t.Errorf("GET after the end: got status %d", resp.StatusCode)
		}
	})
}

// ROB-7: what a session has open ends with it, and nothing of it is kept.
func TestStreamsClose(t *testing.T) {
	eachLegacy(t, func(t *testing.T, k *streamKit) {
		r := k.get("")
		s, p := k.post()
		s.Send([]byte(nthMessage(1)))
		if err := k.streams.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.End() // as its call does, where there is no log
		for _, open := range []*sseClient{r, p} {
			for {
				if _, err := open.in.Next(); err != nil {
					if !errors.Is(err, io.EOF) {
						t.Errorf("the end of a stream: got %v, want io.EOF", err)
					}
					break
				}
			}
		}
		if resp := k.do(http.MethodGet, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET after the end: got status %d, want 404", resp.StatusCode)
		}
		if n := k.set.logged.Load(); n != 0 {
			t.Errorf("%d bytes are kept", n)
		}
	})
}
