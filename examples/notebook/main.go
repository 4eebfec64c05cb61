// Notebook is an MCP server over stdio that keeps notes in a SQLite file.
//
//	troupe run --mcp "go run ./examples/notebook notes.db" "Note that the demo works."
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func main() {
	log.SetFlags(0) // stderr: stdout belongs to the protocol
	if len(os.Args) != 2 {
		log.Fatal("usage: notebook FILE")
	}
	book, err := open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer book.db.Close()

	s, err := newServer(book)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func newServer(b *notebook) (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "notebook", Version: "1.0.0"}, &mcpserver.Options{
		Instructions: "A notebook that lasts. Notes have a title, a text and a time.",
	})
	if err != nil {
		return nil, err
	}
	adds := false // it adds and never destroys
	return s, errors.Join(
		mcpserver.AddFunc(s, &mcp.Tool{Name: "add_note", Description: "Keeps a note.",
			Annotations: &mcp.ToolAnnotations{DestructiveHint: &adds}}, b.add),
		mcpserver.AddFunc(s, &mcp.Tool{Name: "find_notes", Description: "Finds notes, the newest first.",
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, b.find),
	)
}

type notebook struct{ db *sql.DB }

func open(file string) (*notebook, error) {
	db, err := sql.Open(driver, "file:"+strings.NewReplacer("?", "%3f", "#", "%23", "%", "%25").Replace(file)+"?_journal_mode=WAL&_busy_timeout=5000")
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS notes (
		id INTEGER PRIMARY KEY, title TEXT NOT NULL, text TEXT NOT NULL, at TEXT NOT NULL) STRICT`)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the notebook %s: %w", file, err), db.Close())
	}
	return &notebook{db}, nil
}

type addIn struct {
	Title string `json:"title" jsonschema:"a few words"`
	Text  string `json:"text"`
}

type addOut struct {
	ID int64 `json:"id" jsonschema:"of the new note"`
}

func (b *notebook) add(ctx context.Context, in addIn) (addOut, error) {
	if strings.TrimSpace(in.Title) == "" {
		return addOut{}, errors.New("the title is empty: give the note a few words")
	}
	res, err := b.db.ExecContext(ctx, "INSERT INTO notes (title, text, at) VALUES (?, ?, ?)",
		in.Title, in.Text, time.Now().UTC().Format(time.RFC3339))
	if err != nil {
		return addOut{}, err
	}
	id, err := res.LastInsertId()
	return addOut{ID: id}, err
}

type findIn struct {
	Words string `json:"words,omitempty" jsonschema:"a text that title or text contain; empty finds all"`
}

// Note is one entry of the notebook.
type Note struct {
	ID    int64  `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
	At    string `json:"at" jsonschema:"when it was written, RFC 3339"`
}

type findOut struct {
	Notes []Note `json:"notes"`
}

func (b *notebook) find(ctx context.Context, in findIn) (findOut, error) {
	out := findOut{Notes: []Note{}}
	rows, err := b.db.QueryContext(ctx, `SELECT id, title, text, at FROM notes
		WHERE instr(lower(title || ' ' || text), lower(?)) > 0 ORDER BY id DESC LIMIT 50`, in.Words)
	if err != nil {
		return out, err
	}
	defer rows.Close()
	for rows.Next() {
		var n Note
		if err := rows.Scan(&n.ID, &n.Title, &n.Text, &n.At); err != nil {
			return out, err
		}
		out.Notes = append(out.Notes, n)
	}
	return out, rows.Err()
}
