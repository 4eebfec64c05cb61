package llmtest

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// Wire says how a [Server] sends a turn. The zero value is how OpenAI and Ollama send
// theirs when all is well. Fields that only one of them has say so.
type Wire struct {
	// Fault is what goes wrong, once After documents (events or lines) have been sent.
	Fault Fault
	After int

	// ContentType replaces the right one. Gzip compresses, asked or not.
	ContentType string
	Gzip        bool
	// HeaderDelay is waited before the status line.
	HeaderDelay time.Duration
	// Piece cuts what is sent into writes of so many bytes, inside of characters too.
	// Zero writes each document at once.
	Piece int
	// NotAStream sends the whole answer as one JSON document.
	NotAStream bool
	// Finish replaces the word of the finish reason. Usage says how tokens are told.
	Finish string
	Usage  UsageStyle

	// The rest is OpenAI's only.

	// KeepAlives is how many comments are sent before each event.
	KeepAlives int
	// CRLF ends lines so, Tight leaves out the blank behind "data:", Named adds event and
	// id lines.
	CRLF, Tight, Named bool
	// End is how the stream ends.
	End End
	// Calls is how calls are cut, IDs how their ids come. NoIndex leaves their index out,
	// and ZeroIndex numbers all of them zero.
	Calls              CallStyle
	IDs                IDStyle
	NoIndex, ZeroIndex bool
	// Reasoning names the field of thinking. Empty means reasoning_content.
	Reasoning string
	// Refusal sends texts as a refusal, Filter a first event without choices, as Azure does.
	Refusal, Filter bool
}

// Fault is something that goes wrong while a stream is sent.
type Fault string

// The faults. A stream with one never has a whole turn.
const (
	NoFault     Fault = ""
	Cut         Fault = "cut"          // the connection breaks
	Stop        Fault = "stop"         // the stream ends as if all was well
	Silence     Fault = "silence"      // nothing more comes, and the connection stays
	HalfLine    Fault = "half line"    // the stream ends within a document
	Garbage     Fault = "garbage"      // a document is not JSON
	HugeLine    Fault = "huge line"    // a document has more than 4 MiB
	ErrorObject Fault = "error object" // {"error":{"message":…}}
	ErrorString Fault = "error string" // {"error":"…"}
	ErrorBlanks Fault = "error blanks" // { "error" : { "message" : … } }
	ErrorBare   Fault = "error bare"   // the object without "data:", OpenAI only
	ErrorFinish Fault = "error finish" // a finish reason "error", OpenAI only
	Orphaned    Fault = "orphaned"     // an empty event without a reason and a clean end, OpenAI only
	NotDone     Fault = "not done"     // a last line with "done":false, Ollama only
	OnlyLoaded  Fault = "only loaded"  // done, with the reason "load", Ollama only
)

// End is how a stream of OpenAI's ends once the turn is whole.
type End string

// The ends.
const (
	EndDone     End = ""         // [DONE]
	EndNothing  End = "nothing"  // no [DONE]
	EndTwice    End = "twice"    // [DONE] twice
	EndTrailing End = "trailing" // bytes behind [DONE]
	EndOpen     End = "open"     // no [DONE], and the connection stays
)

// UsageStyle is how a server tells what a turn has cost.
type UsageStyle string

// The styles.
const (
	UsageLast UsageStyle = ""      // at the end: in an event of its own, or with done
	UsageEach UsageStyle = "each"  // with each event, OpenAI only
	UsageNone UsageStyle = "never" // not at all
)

// CallStyle is how calls are cut into events.
type CallStyle string

// The styles.
const (
	CallsInPieces    CallStyle = ""            // name first, arguments in pieces, as OpenAI
	CallsWhole       CallStyle = "whole"       // one event for each, as Ollama and llama.cpp
	CallsTogether    CallStyle = "together"    // one event for all
	CallsInterleaved CallStyle = "interleaved" // pieces of all of them in turn
)

// IDStyle is how the ids of calls come.
type IDStyle string

// The styles.
const (
	IDFirst    IDStyle = ""         // with the first piece
	IDEach     IDStyle = "each"     // with each piece
	IDNone     IDStyle = "none"     // never: they are empty
	IDNull     IDStyle = "null"     // with the first piece, and null in the others
	IDRepeated IDStyle = "repeated" // the same for all calls
)

const errorText = "the scripted server was told to fail"

// sender writes documents in a wire's way.
type sender struct {
	wire Wire
	w    http.ResponseWriter
	out  io.Writer // w, or the compressor before it
	sse  bool
	sent int
}

func newSender(w http.ResponseWriter, wire Wire, sse bool, contentType string) *sender {
	if wire.ContentType != "" {
		contentType = wire.ContentType
	}
	w.Header().Set("Content-Type", contentType)
	s := &sender{wire: wire, w: w, out: w, sse: sse}
	if wire.Gzip {
		w.Header().Set("Content-Encoding", "gzip")
		s.out = gzip.NewWriter(w)
	}
	return s
}

// document sends one event or line, and reports whether the stream goes on.
func (s *sender) document(ctx context.Context, doc string) bool {
	if s.wire.Fault != NoFault && s.sent == s.wire.After {
		s.fault(ctx, doc)
		return false
	}
	s.sent++
	return s.write(s.framed(doc))
}

// framed puts a document into its dialect's frame.
func (s *sender) framed(doc string) string {
	if !s.sse {
		return doc + "\n"
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(": ping\n\n", s.wire.KeepAlives))
	if s.wire.Named {
		b.WriteString("event: message\nid: 7\nretry: 1000\n")
	}
	b.WriteString("data:")
	if !s.wire.Tight {
		b.WriteByte(' ')
	}
	b.WriteString(doc + "\n\n")
	if s.wire.CRLF {
		return strings.ReplaceAll(b.String(), "\n", "\r\n")
	}
	return b.String()
}

// fault does what the wire was told to, in place of doc.
func (s *sender) fault(ctx context.Context, doc string) {
	const object = `{"error":{"message":"` + errorText + `","type":"server_error","code":null}}`
	switch s.wire.Fault {
	case Cut:
		s.flush()
		panic(http.ErrAbortHandler) // the way of net/http to break a connection
	case Silence:
		s.flush()
		<-ctx.Done()
	case HalfLine:
		s.write(s.framed(doc)[:len(s.framed(doc))/2])
	case Garbage:
		s.write(s.framed(`{"choices":[{"delta":{"content":tru`))
	case HugeLine:
		s.write(s.framed(`{"message":{"content":"` + strings.Repeat("a", 5<<20) + `"}}`))
	case ErrorObject:
		s.write(s.framed(object))
	case ErrorString:
		s.write(s.framed(`{"error":"` + errorText + `"}`))
	case ErrorBlanks:
		s.write(s.framed(`{ "error" : { "message" : "` + errorText + `" } }`))
	case ErrorBare:
		s.write(object + "\n")
	case ErrorFinish:
		s.write(s.framed(`{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`))
	case Orphaned:
		s.write(s.framed(`{"id":"","model":"","choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}`))
	case NotDone:
		s.write(s.framed(`{"model":"m","message":{"role":"assistant","content":""},"done":false}`))
	case OnlyLoaded:
		s.write(s.framed(`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}`))
	}
}

// write sends text in the wire's pieces, and reports whether the peer still takes it.
func (s *sender) write(text string) bool {
	size := s.wire.Piece
	if size <= 0 {
		size = max(1, len(text))
	}
	for len(text) > 0 {
		n := min(size, len(text))
		if _, err := io.WriteString(s.out, text[:n]); err != nil {
			return false
		}
		s.flush()
		text = text[n:]
	}
	return true
}

func (s *sender) flush() {
	if z, ok := s.out.(*gzip.Writer); ok {
		_ = z.Flush() // a peer that is gone shows at the next write
	}
	_ = http.NewResponseController(s.w).Flush()
}

// end ends a stream whose turn was sent whole.
func (s *sender) end(ctx context.Context) {
	if !s.sse {
		return
	}
	switch s.wire.End {
	case EndDone:
		s.write(s.framed("[DONE]"))
	case EndTwice:
		s.write(s.framed("[DONE]") + s.framed("[DONE]"))
	case EndTrailing:
		s.write(s.framed("[DONE]") + "data: {\"error\":\"behind the end\"}\n\nxyz")
	case EndOpen:
		<-ctx.Done()
	}
}

// close ends the compressed stream.
func (s *sender) close() {
	if z, ok := s.out.(*gzip.Writer); ok {
		_ = z.Close()
	}
}
