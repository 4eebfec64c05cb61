package turn

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Options says how a program is measured.
type Options struct {
	At       int    // sessions at once
	Sessions int    // that are measured
	DB       string // a folder for a database; empty keeps nothing
	Live     int    // sessions that are held at their last turn, whose memory is measured; zero for none
	Variant  string // of the program; empty for its only one
	HTTP     string // where a [Serve] is; empty for the scripted model in the program
}

// Program is a program of the comparison, opened. Run runs one session and returns the answer.
type Program struct {
	Run   func(ctx context.Context, prompt string) (answer string, err error)
	Close func() error // nil for nothing to close
}

// Report is what came of a measurement.
type Report struct {
	CPU      float64 `json:"cpu"`      // µs of a turn, user and system
	Allocs   float64 `json:"allocs"`   // of a turn
	Bytes    float64 `json:"bytes"`    // that a turn allocates
	Gap50    float64 `json:"gap50"`    // µs from an answer of the model to the next request of its session
	Gap99    float64 `json:"gap99"`    // µs
	Sessions float64 `json:"sessions"` // a second
	Live     float64 `json:"live"`     // bytes of a session that waits for the model, heap and stacks
}

// slot is a session that runs.
type slot struct {
	answered time.Time // its last turn
	gaps     []time.Duration
}

// measured is what the scripted model knows.
var measured struct {
	slots []slot // by session; each belongs to one turn at a time
	hold  chan struct{}
	held  atomic.Int64
}

// Ask is the scripted model: it returns what it says to a session with that prompt, which has got
// so many results. With no calls, it says text.
func Ask(ctx context.Context, prompt string, results int) (calls []Call, text string, err error) {
	n, ok := number(prompt)
	if !ok || n >= len(measured.slots) {
		return nil, "", fmt.Errorf("the model got another prompt: %.40q", prompt)
	}
	if calls, text, err = says(results); err != nil {
		return nil, "", err
	}
	s := &measured.slots[n]
	if !s.answered.IsZero() {
		s.gaps = append(s.gaps, time.Since(s.answered))
	}
	if measured.hold != nil && calls == nil {
		measured.held.Add(1)
		select {
		case <-measured.hold:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	s.answered = time.Now()
	return calls, text, nil
}

// Main measures a program as its flags say, and prints a [Report] as JSON.
func Main(open func(*Options) (*Program, error)) {
	var o Options
	flag.IntVar(&o.At, "at", 1, "sessions at once")
	flag.IntVar(&o.Sessions, "sessions", 2000, "sessions to measure")
	flag.StringVar(&o.DB, "db", "", "a folder for a database")
	flag.IntVar(&o.Live, "live", 0, "measure the memory of so many sessions that wait")
	flag.StringVar(&o.Variant, "variant", "", "of the program")
	flag.StringVar(&o.HTTP, "http", "", "the URL of a model that streams its answers")
	flag.Parse()
	if err := o.measure(open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (o *Options) measure(open func(*Options) (*Program, error)) error {
	p, err := open(o)
	if err != nil {
		return err
	}
	warm := max(o.At, 20)
	measured.slots = make([]slot, warm+max(o.Sessions, o.Live))
	if err := o.run(p, 0, warm, o.At); err != nil {
		return err
	}
	var r Report
	if o.Live > 0 {
		r, err = o.live(p, warm)
	} else {
		r, err = o.pass(p, warm)
	}
	if err == nil && p.Close != nil {
		err = p.Close()
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// pass measures sessions that come and go.
func (o *Options) pass(p *Program, first int) (r Report, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, began := spent(), time.Now()
	if err := o.run(p, first, o.Sessions, o.At); err != nil {
		return r, err
	}
	took, turns := time.Since(began), float64(o.Sessions*Turns)
	r.CPU = float64((spent() - cpu).Nanoseconds()) / 1000 / turns
	runtime.ReadMemStats(&after)
	r.Allocs = float64(after.Mallocs-before.Mallocs) / turns
	r.Bytes = float64(after.TotalAlloc-before.TotalAlloc) / turns
	r.Sessions = float64(o.Sessions) / took.Seconds()
	var gaps []time.Duration
	for i := range measured.slots[first:] {
		gaps = append(gaps, measured.slots[first+i].gaps...)
	}
	if len(gaps) == 0 { // the model is in another process
		return r, nil
	}
	slices.Sort(gaps)
	at := func(q float64) float64 { return float64(gaps[int(q*float64(len(gaps)-1))].Nanoseconds()) / 1000 }
	r.Gap50, r.Gap99 = at(.5), at(.99)
	return r, nil
}

// live measures what sessions need that wait for their last turn.
func (o *Options) live(p *Program, first int) (r Report, err error) {
	idle := memory()
	measured.hold = make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- o.run(p, first, o.Live, o.Live) }()
	for measured.held.Load() < int64(o.Live) {
		select {
		case err := <-done:
			return r, errors.Join(errors.New("the sessions did not wait"), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	r.Live = (memory() - idle) / float64(o.Live)
	close(measured.hold)
	return r, <-done
}

// memory is what heap and stacks need once all that is garbage is collected.
func memory() float64 {
	for range 3 {
		runtime.GC()
		time.Sleep(50 * time.Millisecond)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// run runs sessions, so many at once.
func (o *Options) run(p *Program, first, n, at int) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				answer, err := p.Run(ctx, prompt(first+i))
				if err == nil && answer != Answer {
					err = fmt.Errorf("session %d: the answer is %.60q", first+i, answer)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// spent is the CPU time of the process.
func spent() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
