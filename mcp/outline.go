package mcp

import "bytes"

// Outline finds out what can be known of a message from its first and its last bytes:
// its method and its id, each zero if it is not there or not seen. The message must be
// one JSON object; of any other text the answer says nothing.
func Outline(head, tail []byte) (method string, id ID) {
	m := new(Message)
	_ = Scan(head, m) // it is cut off, and what stands before the cut was read
	if m.ID.IsZero() {
		m.ID = idAtEnd(tail)
	}
	return m.Method, m.ID
}

// idAtEnd reads an id that is the last member of an object. Its name cannot be part of
// a text: the quote that ends one is followed by a comma, a colon or a bracket.
func idAtEnd(tail []byte) ID {
	tail = bytes.TrimRight(tail, " \t\r\n")
	tail, ok := bytes.CutSuffix(tail, []byte("}"))
	if !ok {
		return ID{}
	}
	tail = bytes.TrimRight(tail, " \t\r\n")
	i := bytes.LastIndex(tail, []byte(`"id"`))
	if i < 1 || !bytes.ContainsRune([]byte(", \t\r\n{"), rune(tail[i-1])) {
		return ID{}
	}
	value := bytes.TrimLeft(tail[i+len(`"id"`):], " \t\r\n")
	value, ok = bytes.CutPrefix(value, []byte(":"))
	if !ok {
		return ID{}
	}
	id, err := ParseID(bytes.TrimLeft(value, " \t\r\n"))
	if err != nil {
		return ID{}
	}
	return id
}
