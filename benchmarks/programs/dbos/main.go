// Command dbos does the work with a durable workflow of DBOS on SQLite: each turn of the model and
// each call of a tool is a step.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"

	"github.com/troupe-dev/troupe/benchmarks/turn"
)

func main() { turn.Main(open) }

// said is what a turn of the model has brought.
type said struct {
	Calls []turn.Call
	Text  string
}

func workflow(ctx dbos.Context, prompt string) (string, error) {
	results := 0
	for {
		now := results
		s, err := dbos.RunAsStep(ctx, func(ctx context.Context) (said, error) {
			calls, text, err := turn.Ask(ctx, prompt, now)
			return said{calls, text}, err
		}, dbos.WithStepName("turn"))
		if err != nil || s.Calls == nil {
			return s.Text, err
		}
		for _, c := range s.Calls {
			if _, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) {
				var a turn.Args
				if err := json.Unmarshal([]byte(c.Arguments), &a); err != nil {
					return "", err
				}
				return turn.Do(a)
			}, dbos.WithStepName(c.Tool)); err != nil {
				return "", err
			}
			results++
		}
	}
}

func open(o *turn.Options) (*turn.Program, error) {
	if o.DB == "" {
		return nil, errors.New("DBOS needs a database: -db")
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(o.DB, "dbos.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{AppName: "bench", SQLiteSystemDB: db, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(ctx, workflow)
	if err := dbos.Launch(ctx); err != nil {
		return nil, err
	}
	return &turn.Program{Run: func(_ context.Context, prompt string) (string, error) {
		h, err := dbos.RunWorkflow(ctx, workflow, prompt)
		if err != nil {
			return "", err
		}
		return h.GetResult()
	}, Close: func() error {
		dbos.Shutdown(ctx, 10*time.Second)
		return db.Close()
	}}, nil
}
