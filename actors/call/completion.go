package call

import (
	"errors"
	"sync"

	"github.com/troupe-dev/troupe/actors"
)

// completion calls a function with the outcome of a call, and before it OnProgress: in
// order and one at a time, on goroutines of the system.
type completion struct {
	done  func(Result, error)
	leave func() bool // the context is not watched any more; nil without one

	mu      sync.Mutex // guards what follows: the call's actor writes, and a task of the system reads
	running bool       // a task runs
	news    bool       // there is more than the task has passed on
	ended   bool       // the reply has the outcome
}

// complete gives the call its outcome, if it has none.
func (c *Call) complete(result Result, err error) {
	if c.reply.Complete(result, err) && c.completion != nil {
		c.completion.wake(c, true)
	}
}

// wake has a task pass on what there is.
func (s *completion) wake(c *Call, ended bool) {
	s.mu.Lock()
	s.news, s.ended = true, s.ended || ended
	idle := !s.running
	s.running = true
	s.mu.Unlock()
	if idle {
		c.table.sys.Go("the outcome of a call", func() { s.pass(c) })
	}
}

// pass passes on until there is nothing more.
func (s *completion) pass(c *Call) {
	returned := false
	defer func() {
		if !returned { // its caller's function has ended the goroutine
			c.Cancel(errGoexit)
			s.mu.Lock()
			s.running = false
			s.mu.Unlock()
			s.wake(c, false)
		}
	}()
	for {
		s.mu.Lock()
		s.news = false
		ended := s.ended
		s.mu.Unlock()
		if _, err := actors.Guard(func() (struct{}, error) { c.progress.drain(c.req); return struct{}{}, nil }); err != nil {
			c.Cancel(err)
		}
		s.mu.Lock()
		if !ended && !s.news {
			s.running, returned = false, true
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if ended { // OnProgress may end its goroutine, done too
			returned = true
			if s.leave != nil {
				s.leave()
			}
			s.done(c.reply.Result())
			return
		}
	}
}

var errGoexit = errors.New("OnProgress ended its goroutine")
