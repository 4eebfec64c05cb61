package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
)

// radio is a modern server with subscriptions, and the connection to it.
type radio struct {
	*peer
	*watch.Subscriptions
	gen uint64

	mu      sync.Mutex
	last    int64
	streams map[mcp.ID]*tuned // that are out
	opened  int
	closed  int // by the client
	refuse  error
}

// tuned is a listen request that is out.
type tuned struct {
	id     mcp.ID
	tag    any
	filter string
	end    chan error // ends it; nil is a response
}

func newRadio(t testing.TB, change func(*watch.Options)) *radio {
	r := &radio{gen: 1, streams: map[mcp.ID]*tuned{}}
	r.peer = newPeer(t, r.listen)
	o := watch.Options{Do: r.do, Spawn: r.spawn}
	if change != nil {
		change(&o)
	}
	r.Subscriptions = watch.NewSubscriptions(o)
	return r
}

func (r *radio) listen(ctx context.Context, req *call.Request) (string, error) {
	var p struct {
		Notifications json.RawMessage `json:"notifications"`
	}
	if err := json.Unmarshal(req.Params, &p); err != nil || req.Idle != -1 || req.Max != -1 || req.Safe {
		r.t.Errorf("listen: got %+v", req) // SUB-12
	}
	r.mu.Lock()
	if r.refuse != nil {
		defer r.mu.Unlock()
		return "", r.refuse
	}
	r.last++
	r.opened++
	s := &tuned{id: mcp.IntID(r.last), tag: req.Tag, filter: string(p.Notifications), end: make(chan error, 9)}
	r.streams[s.id] = s
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.streams, s.id)
	}()
	select {
	case err := <-s.end:
		return `{"resultType":"complete"}`, err
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.closed++
		return "", context.Cause(ctx)
	}
}

func (r *radio) stream(t testing.TB) *tuned {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.streams) != 1 {
		t.Fatalf("%d streams are open, want 1", len(r.streams))
	}
	for _, s := range r.streams {
		return s
	}
	return nil
}

// out is what the connection says is out.
func (r *radio) out() []call.OutCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []call.OutCall
	for _, s := range r.streams {
		all = append(all, call.OutCall{ID: s.id, Method: mcp.MethodListen, Tag: s.tag})
	}
	return append(all, call.OutCall{ID: mcp.IntID(1000), Method: mcp.MethodCallTool, Tag: "other"})
}

// failed is what the connection does with a request that ends alone.
func (r *radio) failed(id mcp.ID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.streams[id]; s != nil {
		s.end <- &call.LostError{Err: err}
	}
}

// say is a notification of the server; related is the stream it comes on.
func (r *radio) say(method, id, members string, related mcp.ID) bool {
	meta := ""
	if id != "" {
		meta = fmt.Sprintf(`"_meta":{%q:%s}`, mcp.MetaSubscriptionID, id)
	}
	if meta != "" && members != "" {
		meta += ","
	}
	frame := mcp.AppendNotification(nil, method, []byte("{"+meta+members+"}"))
	var m mcp.Message
	if err := mcp.Scan(frame, &m); err != nil {
		r.t.Fatalf("%s: %v", frame, err)
	}
	return r.Notify(watch.Peer{Generation: r.gen, Out: r.out, Failed: r.failed, Related: related}, &m)
}

func (r *radio) ack(s *tuned, filter string) {
	r.say(mcp.NotificationListenAcknowledged, s.id.String(), `"notifications":`+filter, mcp.ID{})
}

// ear remembers notices.
type ear struct {
	mu    sync.Mutex
	heard []watch.Notice
}

func (e *ear) hear(n watch.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, n)
}

func (e *ear) String() string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, n := range e.heard {
		text := n.Kind.String()
		if n.URI != "" {
			text += " " + n.URI
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func (e *ear) last() watch.Notice {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.heard) == 0 {
		return watch.Notice{}
	}
	return e.heard[len(e.heard)-1]
}

var lists = mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{"file:///a", "file:///b"}, TaskIDs: []string{"t1"}}

// SUB-01, SUB-02, SUB-04, SUB-05: the request says what is wished, the acknowledgement
// what of it is agreed to, never more; what is missing is told.
func TestAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := newRadio(t, nil), new(ear)
		l := r.Open(lists, e.hear)
		s := r.stream(t)
		if want := `{"toolsListChanged":true,"resourceSubscriptions":["file:///a","file:///b"],"taskIds":["t1"]}`; s.filter != want {
			t.Errorf("asked for %s, want %s", s.filter, want)
		}
		r.ack(s, `{"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///b","file:///c"]}`)
		n := e.last()
		if got := fmt.Sprint(n.Kind, n.Accepted, n.Missing); got != fmt.Sprint(watch.Acknowledged,
			mcp.SubscriptionFilter{ResourceSubscriptions: []string{"file:///b"}, TaskIDs: []string{}},
			mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{"file:///a"}, TaskIDs: []string{"t1"}}) {
			t.Errorf("got %s", got)
		}
		r.ack(s, `{"toolsListChanged":true}`) // a second one means nothing
		r.say(mcp.NotificationToolsChanged, s.id.String(), "", mcp.ID{})
		r.say(mcp.NotificationPromptsChanged, s.id.String(), "", mcp.ID{}) // was not asked for
		r.say(mcp.NotificationResourceUpdated, s.id.String(), `"uri":"file:///a"`, mcp.ID{})
		r.say(mcp.NotificationResourceUpdated, s.id.String(), `"uri":"file:///b"`, mcp.ID{})
		r.say(mcp.NotificationResourceUpdated, s.id.String(), `"uri":"file:///b/below"`, mcp.ID{})
		r.say(mcp.NotificationResourceUpdated, s.id.String(), `"uri":"file:///beside"`, mcp.ID{})
		if got, want := e.String(), "acknowledged, resource updated file:///b, resource updated file:///b/below"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
		l.Close()
		<-l.Done()
	})
}

// SUB-02, SUB-03, STDIO-07: a notice counts only if it names the subscription, by an
// id of the same type, after the acknowledgement, and came on its stream.
func TestForeignNotices(t *testing.T) {
	tests := []struct {
		name    string
		early   bool // before the acknowledgement
		gen     uint64
		id      string
		related string
		heard   bool
	}{
		{"its own", false, 1, "1", "", true},
		{"its own, on its stream", false, 1, "1", "1", true},
		{"no id, on its stream", false, 1, "", "1", true},
		{"no id", false, 1, "", "", false},
		{"a string", false, 1, `"1"`, "", false},
		{"another's", false, 1, "7", "", false},
		{"that of a tool call", false, 1, "1000", "", false},
		{"its own, on another stream", false, 1, "1", "7", false},
		{"another's, on its stream", false, 1, "7", "1", false},
		{"no id at all", false, 1, "{}", "", false},
		{"of another connection", false, 2, "1", "", false},
		{"too early", true, 1, "1", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, e := newRadio(t, nil), new(ear)
				l := r.Open(lists, e.hear)
				s := r.stream(t)
				if !tt.early {
					r.ack(s, `{"toolsListChanged":true}`)
				}
				r.gen = tt.gen
				var related mcp.ID
				if tt.related != "" {
					related, _ = mcp.ParseID([]byte(tt.related))
				}
				if !r.say(mcp.NotificationToolsChanged, tt.id, "", related) {
					t.Error("it was taken for something else")
				}
				if got := strings.Contains(e.String(), "tools changed"); got != tt.heard {
					t.Errorf("heard: %v, want %v", got, tt.heard)
				}
				l.Close()
			})
		})
	}
}

// A notice that no subscription brings is somebody else's (SUB-10).
func TestNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRadio(t, nil)
		for _, method := range []string{mcp.NotificationMessage, mcp.NotificationProgress, "notifications/other"} {
			if r.say(method, "1", "", mcp.ID{}) {
				t.Errorf("%s was taken for a notice of a subscription", method)
			}
		}
	})
}

// SUB-07, SUB-08: either side ends the subscription, in whatever way and order, once.
func TestEnds(t *testing.T) {
	cancelled := func(r *radio, s *tuned) {
		r.say(mcp.NotificationCancelled, "", `"requestId":`+s.id.String(), mcp.ID{})
	}
	tests := map[string]struct {
		end    func(r *radio, l *watch.Listen, s *tuned)
		told   bool
		err    error
		closed int
	}{
		"the response":                  {func(_ *radio, _ *watch.Listen, s *tuned) { s.end <- nil }, true, nil, 0},
		"the notice":                    {func(r *radio, _ *watch.Listen, s *tuned) { cancelled(r, s) }, true, nil, 0},
		"the response, then the notice": {func(r *radio, _ *watch.Listen, s *tuned) { s.end <- nil; synctest.Wait(); cancelled(r, s) }, true, nil, 0},
		"the notice, then the response": {func(r *radio, _ *watch.Listen, s *tuned) { cancelled(r, s); s.end <- nil }, true, nil, 0},
		"the notice twice":              {func(r *radio, _ *watch.Listen, s *tuned) { cancelled(r, s); cancelled(r, s) }, true, nil, 0},
		"the client":                    {func(_ *radio, l *watch.Listen, _ *tuned) { l.Close(); l.Close() }, false, nil, 1},
		"the client, then the server":   {func(r *radio, l *watch.Listen, s *tuned) { l.Close(); s.end <- nil; cancelled(r, s) }, false, nil, -1},
		"no such method":                {func(_ *radio, _ *watch.Listen, s *tuned) { s.end <- mcp.ErrMethodNotFound }, true, mcp.ErrMethodNotFound, 0},
		"all of them":                   {func(r *radio, _ *watch.Listen, _ *tuned) { r.Subscriptions.Close(errCut) }, true, errCut, 1},
		"its actor is killed":           {func(_ *radio, l *watch.Listen, _ *tuned) { l.Ref().Stop() }, true, watch.ErrFailed, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, e := newRadio(t, nil), new(ear)
				l := r.Open(lists, e.hear)
				s := r.stream(t)
				r.ack(s, `{"toolsListChanged":true}`)
				synctest.Wait()
				if err := l.Err(); err != nil {
					t.Errorf("Err before the end: %v", err)
				}
				tt.end(r, l, s)
				time.Sleep(time.Hour)
				<-l.Done()
				synctest.Wait()
				want := "acknowledged"
				if tt.told {
					want += ", ended"
				}
				if got := e.String(); got != want {
					t.Errorf("heard %s, want %s", got, want)
				}
				if err := l.Err(); !errors.Is(err, tt.err) || tt.err == nil && err != nil {
					t.Errorf("Err: got %v, want %v", err, tt.err)
				}
				if tt.closed >= 0 && r.closed != tt.closed {
					t.Errorf("%d requests were withdrawn, want %d", r.closed, tt.closed)
				}
				if r.opened != 1 {
					t.Errorf("%d streams were opened, want 1", r.opened)
				}
				if l.Ref().Alive() {
					t.Error("the actor is still there")
				}
			})
		})
	}
}

// SUB-09, STDIO-23: a stream that breaks is opened again, after a pause that grows and
// starts anew once one has held; then it is said that notices may have been missed.
func TestBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := newRadio(t, nil), new(ear)
		l := r.Open(lists, e.hear)
		r.stream(t).end <- &call.LostError{Err: errCut} // before it was acknowledged: nothing is missed
		time.Sleep(time.Second)
		s := r.stream(t)
		r.ack(s, `{"toolsListChanged":true}`)
		time.Sleep(time.Minute)
		s.end <- &call.LostError{Err: errCut}
		time.Sleep(time.Second)
		if got, want := e.String(), "acknowledged"; got != want {
			t.Errorf("heard %s before the stream is back, want %s", got, want)
		}
		s = r.stream(t)
		r.ack(s, `{"toolsListChanged":true}`)
		if got, want := e.String(), "acknowledged, acknowledged, missed"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
		for range 40 { // it breaks at once, again and again
			synctest.Wait()
			r.mu.Lock()
			for _, s := range r.streams {
				s.end <- &call.TransportError{Status: http.StatusBadGateway}
			}
			r.mu.Unlock()
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		if r.opened < 10 || r.opened > 30 {
			t.Errorf("%d streams were opened in 400 s of breaks, want some", r.opened)
		}
		l.Close()
		<-l.Done()
	})
}

// A server that refuses now may agree later; one that always does is left alone, and
// so is one to which there is no way.
func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		err   error
		opens int
	}{
		"overloaded":   {mcp.ErrInternal, 5},
		"not declared": {mcp.ErrMissingClientCapability, 1},
		"no such page": {&call.TransportError{Status: http.StatusNotFound}, 1},
		"busy page":    {&call.TransportError{Status: http.StatusTooManyRequests}, 5},
		"no way":       {errCut, 1},
		"closing":      {call.ErrClosed, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, e := newRadio(t, func(o *watch.Options) { o.Permanent = func(err error) bool { return errors.Is(err, errCut) } }), new(ear)
				r.refuse = tt.err
				l := r.Open(lists, e.hear)
				<-l.Done()
				if n := len(r.times(mcp.MethodListen)); n != tt.opens {
					t.Errorf("asked %d times, want %d", n, tt.opens)
				}
				if err := l.Err(); !errors.Is(err, tt.err) {
					t.Errorf("Err: got %v, want %v", err, tt.err)
				}
			})
		})
	}
}

// SUB-06: another wish opens another stream; the old one goes on until that is
// acknowledged, so that nothing is missed.
func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := newRadio(t, nil), new(ear)
		l := r.Open(mcp.SubscriptionFilter{ToolsListChanged: true}, e.hear)
		first := r.stream(t)
		r.ack(first, `{"toolsListChanged":true}`)
		l.Set(mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true})
		l.Set(lists)
		synctest.Wait()
		r.say(mcp.NotificationToolsChanged, first.id.String(), "", mcp.ID{})
		r.mu.Lock()
		var second *tuned
		for _, s := range r.streams {
			if strings.Contains(s.filter, "taskIds") {
				second = s
			}
		}
		open := len(r.streams)
		r.mu.Unlock()
		if open != 2 || second == nil {
			t.Fatalf("%d streams are open, want the first and the last", open)
		}
		r.ack(second, `{"toolsListChanged":true}`)
		if got := r.stream(t); got != second {
			t.Errorf("stream %v is open, want %v", got.id, second.id)
		}
		r.say(mcp.NotificationToolsChanged, first.id.String(), "", mcp.ID{}) // too late
		r.say(mcp.NotificationToolsChanged, second.id.String(), "", mcp.ID{})
		if got, want := e.String(), "acknowledged, tools changed, acknowledged, tools changed"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
		// The new wish is asked for again after a break, and the old stream is not needed for it.
		l.Set(mcp.SubscriptionFilter{})
		synctest.Wait()
		second.end <- &call.LostError{Err: errCut}
		time.Sleep(time.Minute)
		if got := r.stream(t).filter; got != "{}" { // SUB-11
			t.Errorf("asked for %s, want {}", got)
		}
		l.Close()
	})
}

// ROB-3: a flood is not kept; that something was missed is said.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRadio(t, nil)
		hold := make(chan struct{})
		var mu sync.Mutex
		kinds := map[watch.NoticeKind]int{}
		l := r.Open(lists, func(n watch.Notice) {
			if n.Kind == watch.Acknowledged {
				<-hold // a callback must not block; this one makes the queue grow
			}
			mu.Lock()
			defer mu.Unlock()
			kinds[n.Kind]++
		})
		s := r.stream(t)
		r.ack(s, `{"toolsListChanged":true}`)
		for range 10_000 {
			r.say(mcp.NotificationToolsChanged, s.id.String(), "", mcp.ID{})
		}
		close(hold)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if n := kinds[watch.ToolsChanged]; n == 0 || n > 300 || kinds[watch.Missed] == 0 {
			t.Errorf("heard %v, want some hundred changes and that others were missed", kinds)
		}
		l.Close()
	})
}

// A task's notice has the task (XTASK-14).
func TestTaskNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := newRadio(t, nil), new(ear)
		l := r.Open(lists, e.hear)
		s := r.stream(t)
		r.ack(s, `{"taskIds":["t1","t2"]}`)
		for _, id := range []string{"t1", "t2"} {
			body := strings.Replace(strings.Trim(extension("completed", `,"result":{"content":[]}`), "{}")+"}", "t1", id, 1)
			r.say(mcp.NotificationTask, s.id.String(), body, mcp.ID{})
		}
		r.say(mcp.NotificationTask, s.id.String(), `"taskId":"t1","status":"completed"`, mcp.ID{}) // without its result
		if got, want := e.String(), "acknowledged, task changed"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
		if n := e.last(); n.Task == nil || n.Task.ID != "t1" || string(n.Task.Result) != `{"content":[]}` {
			t.Errorf("got %+v", n.Task)
		}
		l.Close()
	})
}

// Whoever can not be started has ended.
func TestListenWithoutActor(t *testing.T) {
	l := watch.NewSubscriptions(watch.Options{Spawn: func(_ actors.Spec, then func(actors.Ref, error)) { then(actors.Ref{}, errCut) }})
	e := new(ear)
	got := l.Open(lists, e.hear)
	<-got.Done()
	if !errors.Is(got.Err(), errCut) {
		t.Errorf("got %v, want %v", got.Err(), errCut)
	}
	l.Close(errCut)
	if later := l.Open(lists, e.hear); !errors.Is(later.Err(), errCut) {
		t.Errorf("after Close: got %v, want %v", later.Err(), errCut)
	}
}

func TestCovers(t *testing.T) {
	tests := []struct {
		subscribed, uri string
		want            bool
	}{
		{"file:///a", "file:///a", true}, {"file:///a", "file:///a/b", true}, {"file:///a/", "file:///a/b", true},
		{"file:///a", "file:///a#x", true}, {"file:///a", "file:///a?x", true},
		{"file:///a", "file:///ab", false}, {"file:///a/b", "file:///a", false}, {"x:1", "x:2", false},
	}
	for _, tt := range tests {
		if got := watch.Covers(tt.subscribed, tt.uri); got != tt.want {
			t.Errorf("Covers(%q, %q): got %v, want %v", tt.subscribed, tt.uri, got, tt.want)
		}
	}
}

// Whatever a server and a network do, a subscription ends once and leaves nothing.
func TestListenChaos(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 9))
				r := newRadio(t, nil)
				type one struct {
					*watch.Listen
					*ear
					closed bool
				}
				var all []*one
				for range 20 {
					o := &one{ear: new(ear)}
					o.Listen = r.Open(lists, o.hear)
					all = append(all, o)
				}
				for range 2000 {
					synctest.Wait()
					o := all[rnd.IntN(len(all))]
					r.mu.Lock()
					var open []*tuned
					for _, s := range r.streams {
						open = append(open, s)
					}
					r.mu.Unlock()
					slices.SortFunc(open, func(a, b *tuned) int { return strings.Compare(a.id.String(), b.id.String()) })
					if len(open) > 0 {
						s := open[rnd.IntN(len(open))]
						switch rnd.IntN(40) {
						case 0:
							s.end <- nil
						case 1, 2, 3, 4, 5:
							s.end <- &call.LostError{Err: errCut}
						case 6:
							r.say(mcp.NotificationCancelled, "", `"requestId":`+s.id.String(), mcp.ID{})
						default:
							r.ack(s, `{"toolsListChanged":true}`)
							r.say(mcp.NotificationToolsChanged, s.id.String(), "", mcp.ID{})
						}
					}
					switch rnd.IntN(400) {
					case 0:
						o.Close()
						o.closed = true
					case 1:
						o.Ref().Stop()
					case 2, 3, 4, 5:
						o.Set(mcp.SubscriptionFilter{ToolsListChanged: true})
					}
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
				}
				r.Subscriptions.Close(errCut)
				for _, o := range all {
					<-o.Done()
					if n := strings.Count(o.String(), "ended"); n > 1 || n == 0 && !o.closed {
						t.Errorf("ended %d times (closed: %v)", n, o.closed)
					}
				}
				synctest.Wait()
				if n := r.sys.Census().Live(actors.KindSubscription); n != 0 || len(r.streams) != 0 {
					t.Errorf("left: %d actors, %d streams", n, len(r.streams))
				}
			})
		})
	}
}

// Notices of a server do no harm, whatever is in them.
func FuzzNotify(f *testing.F) {
	f.Add(mcp.NotificationListenAcknowledged, `{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`)
	f.Add(mcp.NotificationCancelled, `{"requestId":1}`)
	f.Add(mcp.NotificationResourceUpdated, `{"uri":"a","_meta":{"io.modelcontextprotocol/subscriptionId":"1"}}`)
	f.Add(mcp.NotificationTask, `{"taskId":"t1","status":"completed"}`)
	f.Fuzz(func(t *testing.T, method, params string) {
		var m mcp.Message
		if err := mcp.Scan(mcp.AppendNotification(nil, method, []byte(params)), &m); err != nil {
			return
		}
		l := watch.NewSubscriptions(watch.Options{})
		l.Notify(watch.Peer{Out: func() []call.OutCall { return nil }, Failed: func(mcp.ID, error) { t.Error("ended a request that is not a subscription's") }}, &m)
	})
}
