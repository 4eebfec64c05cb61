// Command benchmarks measures an agent's turn beside those of other projects: the same work (see
// package turn) done by each program of folder programs, a fresh process for each repetition, the
// programs interleaved. It prints tables of medians.
//
//	go run . [-http] [-reps 5] [-at 1,100] [-sessions 2000] [-live 1000] [-only troupe,floor]
//
// Without a database it has the floor (a loop, a map of functions, encoding/json), package agent
// in memory, eino (its ReAct agent and its ADK), fantasy and adk-go; with one (SQLite, synchronous
// FULL) the floor with group commits, package agent and DBOS. With -http, 1 and 64 at once, the model is
// a process that streams OpenAI's chunks, whose CPU is not counted; adk-go and DBOS have no client of
// that API. Ratios count: absolute figures move
// with the load of the machine.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/benchmarks/turn"
)

// entry is a row of a table.
type entry struct {
	name    string
	program string // a folder of programs
	variant string
	db      bool
	http    bool // has a client of OpenAI's API
}

var entries = []entry{
	{name: "floor", program: "floor", http: true},
	{name: "troupe, memory", program: "troupe", http: true},
	{name: "eino react", program: "eino", variant: "react", http: true},
	{name: "eino adk", program: "eino", http: true},
	{name: "fantasy", program: "fantasy", http: true},
	{name: "adk-go", program: "adkgo"},
	{name: "floor, SQLite FULL", program: "floor", db: true, http: true},
	{name: "troupe, SQLite FULL", program: "troupe", db: true, http: true},
	{name: "dbos, SQLite FULL", program: "dbos", db: true},
}

// processTime bounds one process.
const processTime = 5 * time.Minute

type options struct {
	reps, sessions, live int
	at                   []int
	entries              []entry
	bin                  string
	http                 bool
}

func main() {
	var o options
	flag.IntVar(&o.reps, "reps", 5, "repetitions")
	flag.IntVar(&o.sessions, "sessions", 2000, "sessions of a repetition")
	flag.IntVar(&o.live, "live", 0, "also measure the memory of so many sessions that wait")
	flag.BoolVar(&o.http, "http", false, "the model is a server that streams its answers")
	at := flag.String("at", "", "how many sessions run at once, a table for each; empty for 1,100, with -http 1,64")
	only := flag.String("only", "", "programs, separated by commas; empty for all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx, *at, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context, at, only string) (err error) {
	usual := "1,100"
	if o.http {
		usual = "1,64"
	}
	for _, text := range strings.Split(cmp.Or(at, usual), ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-at %q: want numbers above zero, separated by commas", at)
		}
		o.at = append(o.at, n)
	}
	o.entries = slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return o.http && !e.http })
	if only != "" {
		o.entries = slices.DeleteFunc(o.entries, func(e entry) bool { return !slices.Contains(strings.Split(only, ","), e.program) })
	}
	if o.reps < 1 || o.sessions < 1 || len(o.entries) == 0 || o.http && o.live > 0 {
		return errors.New("nothing to measure: -reps and -sessions are above zero, -only names programs, -live needs the model in the process")
	}
	if o.bin, err = os.MkdirTemp("", "benchmarks-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.bin)
	for _, e := range o.entries {
		if err := o.build(ctx, e.program); err != nil {
			return err
		}
	}
	if o.http {
		if err := o.build(ctx, "model"); err != nil {
			return err
		}
	}
	for _, n := range o.at {
		if err := o.table(ctx, fmt.Sprintf("%d at once", n), "-at", strconv.Itoa(n), "-sessions", strconv.Itoa(o.sessions)); err != nil {
			return err
		}
	}
	if o.live > 0 {
		return o.table(ctx, fmt.Sprintf("%d sessions that wait for the model", o.live), "-live", strconv.Itoa(o.live), "-at", "10")
	}
	return nil
}

// build builds a program.
func (o *options) build(ctx context.Context, program string) error {
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("programs", program), "-o", filepath.Join(o.bin, program), ".")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s, in folder benchmarks: %w\n%s", program, err, out)
	}
	return nil
}

// table measures all entries with those flags, one after the other, and again.
func (o *options) table(ctx context.Context, title string, flags ...string) error {
	reports := make([][]turn.Report, len(o.entries))
	for range o.reps {
		for i, e := range o.entries {
			r, err := o.measure(ctx, e, flags)
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			reports[i] = append(reports[i], r)
		}
	}
	fmt.Printf("\n### %s\n", title)
	printTable(o.entries, reports)
	return nil
}

// measure runs one process.
func (o *options) measure(ctx context.Context, e entry, flags []string) (r turn.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, processTime)
	defer cancel()
	if e.variant != "" {
		flags = append(slices.Clone(flags), "-variant", e.variant)
	}
	if e.db {
		dir, err := os.MkdirTemp("", "benchmarks-db-")
		if err != nil {
			return r, err
		}
		defer os.RemoveAll(dir)
		flags = append(slices.Clone(flags), "-db", dir)
	}
	if o.http {
		url, stop, err := o.serve(ctx)
		if err != nil {
			return r, err
		}
		defer stop()
		flags = append(slices.Clone(flags), "-http", url)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, e.program), flags...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%w: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	return r, json.Unmarshal(out.Bytes(), &r)
}

// serve starts the model and returns its URL.
func (o *options) serve(ctx context.Context) (url string, stop func(), err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, "model"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		in.Close()
		_ = cmd.Wait() // that its listener was closed is how it ends
	}
	if url, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		stop()
		return "", nil, fmt.Errorf("the model's URL: %w", err)
	}
	return strings.TrimSpace(url), stop, nil
}
