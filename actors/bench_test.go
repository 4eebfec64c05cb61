package actors_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// pong answers each ping on the channel it was made with.
type pong struct{ out chan int }

func (p pong) Receive(_ *actors.Context, msg any) {
	if m, ok := msg.(*ping); ok {
		p.out <- m.n
	}
}

// BenchmarkRoundTrip is one message to an actor and one answer back, with floors
// that are no actors beside it.
func BenchmarkRoundTrip(b *testing.B) {
	for _, inline := range []bool{false, true} {
		b.Run(mailboxName(inline), func(b *testing.B) {
			sys := start(b, nil)
			out := make(chan int, 1)
			ref := spawn(b, sys, actors.Spec{Kind: actors.KindCall, Inline: inline, New: func() actors.Actor { return pong{out} }})
			msg := &ping{n: 1}
			b.ReportAllocs()
			for b.Loop() {
				ref.Send(msg)
				<-out
			}
		})
	}
	b.Run("floor=channels", func(b *testing.B) {
		in, out := make(chan int), make(chan int, 1)
		go func() {
			for n := range in {
				out <- n
			}
		}()
		defer close(in)
		b.ReportAllocs()
		for b.Loop() {
			in <- 1
			<-out
		}
	})
	b.Run("floor=mutex", func(b *testing.B) {
		var mu sync.Mutex
		out := make(chan int, 1)
		b.ReportAllocs()
		for b.Loop() {
			mu.Lock()
			out <- 1
			mu.Unlock()
			<-out
		}
	})
}

func mailboxName(inline bool) string {
	if inline {
		return "inline"
	}
	return "pooled"
}

// BenchmarkAsk is a call from outside with a reply and a context.
func BenchmarkAsk(b *testing.B) {
	for _, inline := range []bool{false, true} {
		b.Run(mailboxName(inline), func(b *testing.B) {
			sys := start(b, nil)
			ref := spawn(b, sys, actors.Spec{Kind: actors.KindCall, Inline: inline, New: func() actors.Actor { return new(adder) }})
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := actors.Ask(ctx, ref, func(r *actors.Reply[int]) any { return add{1, r} }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("floor=channels", func(b *testing.B) {
		type request struct{ reply chan int }
		in := make(chan request)
		go func() {
			for r := range in {
				r.reply <- 1
			}
		}()
		defer close(in)
		b.ReportAllocs()
		for b.Loop() {
			r := request{make(chan int, 1)}
			in <- r
			<-r.reply
		}
	})
}

// BenchmarkActorToActor is two pooled actors that answer each other: two wake-ups.
func BenchmarkActorToActor(b *testing.B) {
	sys := start(b, nil)
	done := make(chan struct{}, 1)
	left := 0
	var there, here actors.Ref
	there = spawn(b, sys, actors.Spec{Kind: actors.KindCall, New: func() actors.Actor {
		return actors.ReceiveFunc(func(_ *actors.Context, msg any) {
			if m, ok := msg.(*ping); ok {
				here.Send(m)
			}
		})
	}})
	here = spawn(b, sys, actors.Spec{Kind: actors.KindCall, New: func() actors.Actor {
		return actors.ReceiveFunc(func(_ *actors.Context, msg any) {
			m, ok := msg.(*ping)
			switch {
			case !ok:
			case left == 0:
				done <- struct{}{}
			default:
				left--
				there.Send(m)
			}
		})
	}})
	b.ReportAllocs()
	left = b.N
	here.Send(&ping{})
	<-done
}

func BenchmarkSpawnStop(b *testing.B) {
	for _, inline := range []bool{false, true} {
		b.Run(mailboxName(inline), func(b *testing.B) {
			sys := start(b, nil)
			idle := make(chan struct{}, 1)
			spec := actors.Spec{Kind: actors.KindCall, Inline: inline, New: func() actors.Actor { return new(adder) }}
			parent := spawn(b, sys, actors.Spec{Kind: actors.KindHost, New: func() actors.Actor {
				return actors.ReceiveFunc(func(c *actors.Context, msg any) {
					switch msg.(type) {
					case *ping:
						ref, err := c.Spawn(spec)
						if err != nil {
							b.Error(err)
						}
						ref.Stop()
					case actors.ChildStopped:
						idle <- struct{}{}
					}
				})
			}})
			b.ReportAllocs()
			for b.Loop() {
				parent.Send(&ping{})
				<-idle
			}
		})
	}
	b.Run("floor=goroutine", func(b *testing.B) {
		idle := make(chan struct{}, 1)
		b.ReportAllocs()
		for b.Loop() {
			in := make(chan int, 1)
			go func() { <-in; idle <- struct{}{} }()
			close(in)
			<-idle
		}
	})
}

// BenchmarkSendBusy is what a sender pays for an actor that runs already.
func BenchmarkSendBusy(b *testing.B) {
	for _, inline := range []bool{false, true} {
		b.Run(mailboxName(inline), func(b *testing.B) {
			sys := start(b, nil)
			blocked, open := make(chan struct{}), make(chan struct{})
			ref := spawn(b, sys, actors.Spec{Kind: actors.KindCall, Inline: inline, New: func() actors.Actor {
				return actors.ReceiveFunc(func(_ *actors.Context, msg any) {
					if _, ok := msg.(blow); ok {
						close(blocked)
						<-open
					}
				})
			}})
			go ref.Send(blow{})
			<-blocked
			msg := &plain{}
			b.ReportAllocs()
			for b.Loop() {
				ref.Send(msg)
			}
			close(open)
		})
	}
	b.Run("floor=channel", func(b *testing.B) {
		in := make(chan *plain, 1<<20)
		msg := &plain{}
		b.ReportAllocs()
		for b.Loop() {
			select {
			case in <- msg:
			default:
				b.StopTimer()
				for len(in) > 0 {
					<-in
				}
				b.StartTimer()
			}
		}
	})
}

func BenchmarkReply(b *testing.B) {
	ctx := b.Context()
	b.Run("complete", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r actors.Reply[int]
			r.Complete(1, nil)
			if v, _ := r.Wait(ctx); v != 1 {
				b.Fatal(v)
			}
		}
	})
	b.Run("wait", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := new(actors.Reply[int])
			go r.Complete(1, nil)
			if v, _ := r.Wait(ctx); v != 1 {
				b.Fatal(v)
			}
		}
	})
}

// BenchmarkTimer sets a timer that never comes due: what progress costs a call.
func BenchmarkTimer(b *testing.B) {
	for _, tt := range []struct {
		name string
		step time.Duration
	}{{"later", time.Microsecond}, {"earlier", -time.Microsecond}} {
		b.Run(tt.name, func(b *testing.B) {
			sys := start(b, nil)
			done := make(chan struct{})
			ref := spawn(b, sys, actors.Spec{Kind: actors.KindCall, New: func() actors.Actor {
				return actors.ReceiveFunc(func(c *actors.Context, msg any) {
					if _, ok := msg.(*ping); !ok {
						return
					}
					defer close(done)
					t := c.NewTimer("late")
					due := time.Now().Add(1000 * time.Hour)
					b.ReportAllocs()
					for b.Loop() {
						due = due.Add(tt.step)
						t.SetAt(due)
					}
				})
			}})
			ref.Send(&ping{})
			<-done
		})
	}
}

// BenchmarkTask is work outside of the mailbox whose result comes back.
func BenchmarkTask(b *testing.B) {
	sys := start(b, nil)
	done := make(chan struct{}, 1)
	ref := spawn(b, sys, actors.Spec{Kind: actors.KindCall, New: func() actors.Actor {
		return actors.ReceiveFunc(func(c *actors.Context, msg any) {
			switch msg.(type) {
			case *ping:
				actors.Await(c, func(context.Context) (int, error) { return 1, nil }, func(n int, err error) any { return n })
			case int:
				done <- struct{}{}
			}
		})
	}})
	msg := &ping{}
	b.ReportAllocs()
	for b.Loop() {
		ref.Send(msg)
		<-done
	}
}

// BenchmarkIdleActor measures the memory of actors that do nothing.
func BenchmarkIdleActor(b *testing.B) {
	for _, inline := range []bool{false, true} {
		b.Run(mailboxName(inline), func(b *testing.B) {
			var bytes float64
			for b.Loop() {
				bytes = idleBytes(b, 100_000, inline)
			}
			b.ReportMetric(bytes, "B/actor")
		})
	}
}

// idleBytes returns the heap that one of n idle children costs.
func idleBytes(tb testing.TB, n int, inline bool) float64 {
	tb.Helper()
	sys := start(tb, nil)
	spawned := make(chan struct{})
	parent := spawn(tb, sys, actors.Spec{Kind: actors.KindClient, Name: "client", New: func() actors.Actor {
		return actors.ReceiveFunc(func(c *actors.Context, msg any) {
			if m, ok := msg.(*ping); ok {
				for range m.n {
					if _, err := c.Spawn(actors.Spec{Kind: actors.KindCall, Inline: inline, New: func() actors.Actor { return idler{} }}); err != nil {
						tb.Error(err)
					}
				}
				close(spawned)
			}
		})
	}})
	before := heap()
	parent.Send(&ping{n: n})
	<-spawned
	bytes := float64(heap()-before) / float64(n)
	parent.Stop()
	<-parent.Stopped()
	return bytes
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

type idler struct{}

func (idler) Receive(*actors.Context, any) {}
