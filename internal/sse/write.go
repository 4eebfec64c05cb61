package sse

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// ErrField says that a type or an id cannot be written: a line break would end it
// and begin a field of its own, and an id with a NUL is ignored by readers.
var ErrField = errors.New("event type or id holds a character that cannot be sent")

// AppendEvent appends e with the blank line that ends it. Data of several lines
// becomes several fields; a reader gets CR and CRLF in it back as LF. Data is left
// out where it is empty and there is no ID: a priming event has both (WIRE-11).
func AppendEvent(dst []byte, e *Event) ([]byte, error) {
	if strings.ContainsAny(e.Type, "\r\n") || strings.ContainsAny(e.ID, "\r\n\x00") {
		return dst, ErrField
	}
	if e.Type != "" {
		dst = appendField(dst, "event: ", e.Type)
	}
	if e.HasID {
		dst = appendField(dst, "id: ", e.ID)
	}
	if e.HasRetry {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, max(e.Retry.Milliseconds(), 0), 10)
		dst = append(dst, '\n')
	}
	if len(e.Data) > 0 || e.HasID || !e.HasRetry {
		dst = appendLines(dst, "data: ", e.Data)
	}
	return append(dst, '\n'), nil
}

// AppendComment appends a comment, which readers ignore: it keeps a quiet stream
// alive (WIRE-13). An empty text is fine.
func AppendComment(dst []byte, text string) []byte {
	dst = appendLines(dst, ": ", []byte(text))
	return append(dst, '\n')
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

// appendLines appends text with name before each of its lines.
func appendLines(dst []byte, name string, text []byte) []byte {
	hasCR := bytes.IndexByte(text, '\r') >= 0
	for {
		i := bytes.IndexByte(text, '\n')
		if hasCR {
			i = bytes.IndexAny(text, "\r\n")
		}
		dst = append(dst, name...)
		if i < 0 {
			dst = append(dst, text...)
			return append(dst, '\n')
		}
		dst = append(dst, text[:i]...)
		dst = append(dst, '\n')
		if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		text = text[i+1:]
	}
}
