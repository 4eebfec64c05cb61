// Command benchmarks measures an agent's turn beside those of other projects: the same work (see
// package turn) done by each program of folder programs, a fresh process for each repetition, the
// programs interleaved. It prints tables of medians.
//
//	go run . [-reps 5] [-at 1,100] [-sessions 2000] [-live 1000] [-only troupe,floor]
//
// Without a database it has the floor (a loop, a map of functions, encoding/json), package agent
// in memory, eino (its ReAct agent and its ADK), fantasy and adk-go; with one (SQLite, synchronous
// FULL) the floor with group commits, package agent and DBOS. Ratios count: absolute figures move
// with the load of the machine.
package main

import (
	"bytes"
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
}

var entries = []entry{
	{name: "floor", program: "floor"},
	{name: "troupe, memory", program: "troupe"},
	{name: "eino react", program: "eino", variant: "react"},
	{name: "eino adk", program: "eino"},
	{name: "fantasy", program: "fantasy"},
	{name: "adk-go", program: "adkgo"},
	{name: "floor, SQLite FULL", program: "floor", db: true},
	{name: "troupe, SQLite FULL", program: "troupe", db: true},
	{name: "dbos, SQLite FULL", program: "dbos", db: true},
}

// processTime bounds one process.
const processTime = 5 * time.Minute

type options struct {
	reps, sessions, live int
	at                   []int
	entries              []entry
	bin                  string
}

func main() {
	var o options
	flag.IntVar(&o.reps, "reps", 5, "repetitions")
	flag.IntVar(&o.sessions, "sessions", 2000, "sessions of a repetition")
	flag.IntVar(&o.live, "live", 0, "also measure the memory of so many sessions that wait")
	at := flag.String("at", "1,100", "how many sessions run at once, a table for each")
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
	for _, text := range strings.Split(at, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-at %q: want numbers above zero, separated by commas", at)
		}
		o.at = append(o.at, n)
	}
	o.entries = slices.Clone(entries)
	if only != "" {
		o.entries = slices.DeleteFunc(o.entries, func(e entry) bool { return !slices.Contains(strings.Split(only, ","), e.program) })
	}
	if o.reps < 1 || o.sessions < 1 || len(o.entries) == 0 {
		return errors.New("nothing to measure: -reps and -sessions are above zero, -only names programs")
	}
	if o.bin, err = os.MkdirTemp("", "benchmarks-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.bin)
	for _, e := range o.entries {
		build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("programs", e.program), "-o", filepath.Join(o.bin, e.program), ".")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("building %s, in folder benchmarks: %w", e.program, err)
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
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, e.program), flags...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%w: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	return r, json.Unmarshal(out.Bytes(), &r)
}
