package models

import (
	"context"
	"encoding/base64"
	"errors"
	"iter"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/modelservers"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/mcp"
)

// failure runs a turn that must fail, and returns its error.
func failure(t *testing.T, m llm.Model, req *llm.Request) *llm.Error {
	t.Helper()
	resp, err := llm.Generate(soon(t), m, req)
	var e *llm.Error
	if !errors.As(err, &e) {
		t.Fatalf("Generate: got %+v, %v, want an *llm.Error", resp, err)
	}
	return e
}

// TestNoSuchModel: Ollama says so in both its ways. A llama-server has one model, and takes
// any name for it.
func TestNoSuchModel(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		s := b.tiny(t)
		s.model = "nope"
		if b.llama {
			if resp := ask(t, s.client(), saying("Hello")); resp.Model != modelservers.LlamaModel {
				t.Errorf("Generate: got model %q, want %q", resp.Model, modelservers.LlamaModel)
			}
			return
		}
		if e := failure(t, s.client(), saying("Hello")); !errors.Is(e, llm.ErrNotFound) || e.Status != http.StatusNotFound || e.Retryable || !strings.Contains(e.Message, "nope") {
			t.Errorf("Generate: got %#v", e)
		}
	})
}

// TestRepetition: Ollama ends a turn that repeats one token with a last line that is not
// "done". That is no answer.
func TestRepetition(t *testing.T) {
	t.Parallel()
	for _, b := range []backend{native, compat} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			if e := failure(t, b.tiny(t).client(), saying("#stuck")); !errors.Is(e, llm.ErrStreamCut) || !e.Retryable {
				t.Errorf("Generate(#stuck): got %#v, want a cut stream", e)
			}
		})
	}
}

// TestTooLong: llama-server refuses a conversation that is longer than its window. Ollama
// drops the beginning, and says nothing.
func TestTooLong(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		m := b.tiny(t).client()
		req := saying("#weather " + strings.Repeat("blah ", 1000))
		req.Messages = append(req.Messages, llm.Assistant("Yes?"), llm.User("Never mind."))
		if b.llama {
			if e := failure(t, m, req); !errors.Is(e, llm.ErrContextLength) || e.Retryable {
				t.Errorf("Generate: got %#v, want ErrContextLength", e)
			}
			return
		}
		if resp := ask(t, m, req); resp.Text() != modelservers.Behaviour().Default || resp.Usage.Input > 4096 {
			t.Errorf("Generate: got %q for %d tokens, want the default: the marker is to be dropped", resp.Text(), resp.Usage.Input)
		}
	})
}

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestImage: a model without eyes does not get to answer. Ollama in OpenAI's way drops the
// image and answers all the same.
func TestImage(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		data, err := base64.StdEncoding.DecodeString(pixel)
		if err != nil {
			t.Fatal(err)
		}
		req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Content: mcp.Contents{
			mcp.Text("What is this?"), &mcp.ImageContent{Data: data, MIMEType: "image/png"},
		}}}}
		m := b.tiny(t).client()
		if b == compat {
			if resp := ask(t, m, req); resp.Text() != modelservers.Behaviour().Default {
				t.Errorf("Generate: got %q", resp.Text())
			}
			return
		}
		e := failure(t, m, req)
		if b == native && !errors.Is(e, llm.ErrUnsupported) || e.Status == http.StatusOK {
			t.Errorf("Generate: got %#v", e)
		}
		t.Log(e)
	})
}

// endless begins a stream without end and returns what pulls its events, the first
// having come.
func endless(t *testing.T, ctx context.Context, m llm.Model) (next func() (llm.Event, error, bool), stop func()) {
	t.Helper()
	next, stop = iter.Pull2(m.Stream(ctx, saying("#forever")))
	t.Cleanup(stop)
	if ev, err, ok := next(); !ok || err != nil {
		t.Fatalf("Stream(#forever): got %+v, %v", ev, err)
	}
	return next, stop
}

// TestQueueFull: a request that needs the model loaded with another window waits for the
// one that streams, a second waits behind it, and further ones are told to come back. (Any
// number may wait for a model that is loaded already: OLLAMA_MAX_QUEUE does not count them.)
func TestQueueFull(t *testing.T) {
	t.Parallel()
	native.leaving(t, func() error {
		s, _ := native.alone(t, 1)
		_, stop := endless(t, soon(t), s.client())
		other := ollama.New(s.model, &ollama.Options{Host: s.url, ContextLength: 1024})
		ctx, cancel := context.WithCancelCause(soon(t))
		defer cancel(nil)
		const asked = 3
		ends := make(chan error, asked)
		for range asked {
			go func() {
				_, err := llm.Generate(ctx, other, saying("Hello"))
				ends <- err
			}()
		}
		refused := func(err error) bool {
			var e *llm.Error
			return errors.As(err, &e) && e.Status == http.StatusServiceUnavailable && e.Retryable
		}
		if err := <-ends; !refused(err) {
			t.Errorf("Generate with a full queue: got %v, want a status 503", err)
		}
		stop()
		lost := errors.New("no caller got an answer after the stream had ended")
		late := time.AfterFunc(answered, func() { cancel(lost) })
		defer late.Stop()
		left := lost
		for range asked - 1 {
			switch err := <-ends; {
			case err == nil:
				left = nil
			case !refused(err) && !errors.Is(err, lost):
				t.Errorf("Generate that has waited: %v", err)
			}
		}
		return left
	})
}

// TestKilledRunner: Ollama's process for the model is killed in the middle of an answer.
// That is an error, and the next turn has a new process (ROB-2).
func TestKilledRunner(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it looks for processes in /proc, which is Linux's")
	}
	t.Parallel()
	for _, b := range []backend{native, compat} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s, server := b.alone(t, 8)
			next, _ := endless(t, soon(t), s.client())
			killRunner(t, server)
			err := restOf(t, next)
			var e *llm.Error
			if !errors.As(err, &e) || !e.Retryable || e.Error() == "" {
				t.Errorf("the killed stream: got %#v, want a retryable error", err)
			}
			t.Log(err)
			if resp := ask(t, s.client(), saying("Hello")); resp.Text() != modelservers.Behaviour().Default {
				t.Errorf("the next turn: got %q", resp.Text())
			}
		})
	}
}

// killRunner kills the one process of a model that is loaded.
func killRunner(t *testing.T, server *modelservers.OllamaServer) {
	t.Helper()
	runners, err := server.Runners()
	if err != nil || len(runners) != 1 {
		t.Fatalf("Runners: got %d, %v, want one", len(runners), err)
	}
	if err := runners[0].Kill(); err != nil {
		t.Fatal(err)
	}
}

// restOf reads a stream to its end, which has to be an error.
func restOf(t *testing.T, next func() (llm.Event, error, bool)) error {
	t.Helper()
	for {
		ev, err, ok := next()
		if err != nil {
			return err
		}
		if _, whole := ev.(llm.Finish); !ok || whole {
			t.Fatalf("the stream has ended well, with %+v", ev)
		}
	}
}

// TestKilledServer: the server is killed in the middle of an answer. That is an error, the
// next turn cannot reach it, and once there is one again all is well.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts real model servers")
	}
	server := modelservers.ServeLlama(t, modelservers.Behaviour(), nil)
	s := service{llama, server.URL, modelservers.LlamaModel}
	next, _ := endless(t, soon(t), s.client())
	server.Kill()
	if err := restOf(t, next); !errors.Is(err, llm.ErrStreamCut) {
		t.Errorf("the killed stream: got %v, want ErrStreamCut", err)
	}
	if e := failure(t, s.client(), saying("Hello")); !errors.Is(e, llm.ErrUnreachable) || !e.Retryable {
		t.Errorf("without a server: got %#v, want ErrUnreachable", e)
	}
	again := service{llama, modelservers.ServeLlama(t, modelservers.Behaviour(), nil).URL, modelservers.LlamaModel}
	if resp := ask(t, again.client(), saying("Hello")); resp.Text() != modelservers.Behaviour().Default {
		t.Errorf("the next server: got %q", resp.Text())
	}
}
