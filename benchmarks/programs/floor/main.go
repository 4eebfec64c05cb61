// Command floor does the work with a loop, a map of functions and encoding/json, which is the least
// that an agent can do; with a database it inserts a row for each step, and one writer commits what
// came while it wrote.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3"

	"github.com/troupe-dev/troupe/benchmarks/turn"
)

func main() { turn.Main(open) }

type message struct {
	Role    string      `json:"role"`
	Text    string      `json:"text,omitempty"`
	Calls   []turn.Call `json:"calls,omitempty"`
	Results []string    `json:"results,omitempty"`
}

func open(o *turn.Options) (*turn.Program, error) {
	j := journal{}
	if o.DB != "" {
		if err := j.open(filepath.Join(o.DB, "floor.db")); err != nil {
			return nil, err
		}
	}
	ask := func(ctx context.Context, prompt string, results int, _ []message) ([]turn.Call, string, error) {
		return turn.Ask(ctx, prompt, results)
	}
	if o.HTTP != "" {
		r := newRemote(o)
		ask = func(ctx context.Context, _ string, _ int, history []message) ([]turn.Call, string, error) {
			return r.ask(ctx, history)
		}
	}
	tools := make(map[string]func(turn.Args) (string, error))
	for _, name := range turn.Tools {
		tools[name] = turn.Do
	}
	run := func(ctx context.Context, prompt string) (string, error) {
		history, results := []message{{Role: "system", Text: turn.Instructions}, {Role: "user", Text: prompt}}, 0
		if err := j.write(prompt[:24], history); err != nil {
			return "", err
		}
		for {
			calls, text, err := ask(ctx, prompt, results, history)
			if err != nil {
				return "", err
			}
			said := message{Role: "assistant", Text: text, Calls: calls}
			if err := j.write(prompt[:24], []message{said}); err != nil || calls == nil {
				return text, errors.Join(err, j.write(prompt[:24], nil))
			}
			answer := message{Role: "tool"}
			for _, c := range calls {
				var a turn.Args
				if err := json.Unmarshal([]byte(c.Arguments), &a); err != nil {
					return "", err
				}
				text, err := tools[c.Tool](a)
				if err != nil {
					return "", err
				}
				answer.Results, results = append(answer.Results, text), results+1
			}
			history = append(history, said, answer)
			if err := j.write(prompt[:24], []message{answer}); err != nil {
				return "", err
			}
		}
	}
	return &turn.Program{Run: run, Close: j.close}, nil
}

// journal writes steps. Its zero value keeps nothing, but encodes them.
type journal struct {
	steps chan step
	ended chan error
}

type step struct {
	session string
	body    []byte
	done    chan error
}

func (j *journal) open(path string) error {
	db, err := sql.Open("sqlite3", path+"?_journal_mode=WAL&_synchronous=FULL")
	if err != nil {
		return err
	}
	if _, err := db.Exec("CREATE TABLE steps (id INTEGER PRIMARY KEY, session TEXT, body BLOB)"); err != nil {
		return err
	}
	insert, err := db.Prepare("INSERT INTO steps (session, body) VALUES (?, ?)")
	if err != nil {
		return err
	}
	j.steps, j.ended = make(chan step, 4096), make(chan error, 1)
	go func() {
		for first := range j.steps {
			group := []step{first}
			for len(j.steps) > 0 {
				group = append(group, <-j.steps)
			}
			err := commit(db, insert, group)
			for _, s := range group {
				s.done <- err
			}
		}
		j.ended <- db.Close()
	}()
	return nil
}

func commit(db *sql.DB, insert *sql.Stmt, group []step) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	in := tx.Stmt(insert)
	for _, s := range group {
		if _, err := in.Exec(s.session, s.body); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (j *journal) write(session string, what any) error {
	body, err := json.Marshal(what)
	if err != nil || j.steps == nil {
		return err
	}
	s := step{session, body, make(chan error, 1)}
	j.steps <- s
	return <-s.done
}

func (j *journal) close() error {
	if j.steps == nil {
		return nil
	}
	close(j.steps)
	return <-j.ended
}
