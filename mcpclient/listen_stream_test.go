package mcpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// perStream is a modern server behind a transport that has a stream for each request,
// as Streamable HTTP does.
type perStream struct {
	t *testing.T

	mu   sync.Mutex
	sink mcp.CallSink
	out  []mcp.Outgoing // without their frames
	done bool           // the task is
}

func (s *perStream) Connect(sink mcp.Sink) (mcp.Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink = sink.(mcp.CallSink)
	return s, nil
}

func (s *perStream) Close() error { return nil }

func (s *perStream) Send(m mcp.Outgoing) error {
	msg := new(mcp.Message)
	if err := mcp.Scan(bytes.Clone(m.Frame), msg); err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	kept := m
	kept.Frame = nil
	s.out = append(s.out, kept)
	sink, done := s.sink, s.done
	s.mu.Unlock()
	go func() {
		const task = `"taskId":"täsk 1","createdAt":"","lastUpdatedAt":"","ttlMs":null,"pollIntervalMs":1000`
		switch msg.Method {
		case mcp.MethodDiscover:
			sink.FrameOf(m.ID, []byte(resultOf(msg, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+subscribeCaps+`}`)))
		case mcp.MethodListTools:
			sink.FrameOf(m.ID, []byte(resultOf(msg, `{"resultType":"complete","ttlMs":100000,"tools":[]}`)))
		case mcp.MethodCallTool:
			sink.FrameOf(m.ID, []byte(resultOf(msg, `{"resultType":"task","status":"working",`+task+`}`)))
		case mcp.MethodGetTask:
			status := `"status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}}`
			if done {
				status = `"status":"working"`
			}
			sink.FrameOf(m.ID, []byte(resultOf(msg, `{"resultType":"complete",`+status+`,`+task+`}`)))
		case mcp.MethodUpdateTask, mcp.MethodCancelTask:
			s.mu.Lock()
			s.done = true
			s.mu.Unlock()
			sink.FrameOf(m.ID, []byte(resultOf(msg, `{"resultType":"complete"}`)))
		case mcp.MethodListen:
			sink.FrameOf(m.ID, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{%q:%s},"notifications":{"toolsListChanged":true}}}`, mcp.MetaSubscriptionID, m.ID))
		}
	}()
	return nil
}

// of returns what was sent of a method.
func (s *perStream) of(method string) (out []mcp.Outgoing) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.out {
		if m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

// XTASK-17: the transport is told the task's id as the name of what is asked about it.
func TestTaskNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &perStream{t: t}
		c, err := Dial(t.Context(), InProcess("x", s), &Options{System: newSystem(t), Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")}, AskOptions: AskOptions{Human: says(mcp.ActionDecline)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "tool", nil, &CallOptions{Max: time.Minute}); err == nil {
			t.Error("CallTool: got no error, want a timeout")
		}
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask} {
			sent := s.of(method)
			if len(sent) == 0 {
				t.Errorf("%s was not sent", method)
			}
			for _, m := range sent {
				if m.Name != "täsk 1" {
					t.Errorf("%s: got the name %q, want the task's id", method, m.Name)
				}
			}
		}
		if sent := s.of(mcp.NotificationCancelled); len(sent) != 0 {
			t.Errorf("%d requests were withdrawn", len(sent))
		}
		closeIn(t, c, time.Minute)
	})
}

// SUB-03, SUB-07, SUB-09: over such a transport a notice must come on the stream of its
// subscription; the client ends one by closing its stream, and opens one anew that was
// cut off while the connection goes on.
func TestListenOnItsStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &perStream{t: t}
		c, err := Dial(t.Context(), InProcess("x", s), &Options{System: newSystem(t)})
		if err != nil {
			t.Fatal(err)
		}
		var h heard
		sub, err := c.Listen(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}, h.notice)
		if err != nil {
			t.Fatal(err)
		}
		id := s.of(mcp.MethodListen)[0].ID
		say := func(on mcp.ID, names string) {
			meta := ""
			if names != "" {
				meta = fmt.Sprintf(`"_meta":{%q:%s}`, mcp.MetaSubscriptionID, names)
			}
			s.sink.FrameOf(on, []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+meta+`}}`))
		}
		say(id, id.String())
		say(mcp.IntID(999), id.String())
		say(id, "999")
		say(mcp.ID{}, "")
		if got, want := h.String(), "acknowledged, tools changed"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
		s.sink.Failed(id, fmt.Errorf("cut off"))
		time.Sleep(time.Minute)
		if got, want := h.String(), "acknowledged, tools changed, acknowledged, missed"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
		listens, cancels := s.of(mcp.MethodListen), s.of(mcp.NotificationCancelled)
		if len(listens) != 2 || len(cancels) != 1 || cancels[0].Cancels != listens[1].ID {
			t.Errorf("%d streams, withdrawn: %+v, want the second", len(listens), cancels)
		}
		closeIn(t, c, time.Minute)
	})
}
