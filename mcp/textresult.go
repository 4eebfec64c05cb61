package mcp

import "bytes"

// DecodeCallToolResult reads the result of tools/call as [Unmarshal] does, and
// several times quicker where its content is plain text, as it mostly is.
func DecodeCallToolResult(raw []byte) (*CallToolResult, error) {
	if r := decodeTextResult(raw); r != nil {
		return r, nil
	}
	r := new(CallToolResult)
	if err := Unmarshal(raw, r); err != nil {
		return nil, err
	}
	return r, nil
}

// textResult is a result of one text block, in one allocation.
type textResult struct {
	CallToolResult
	text  TextContent
	block [1]Content
}

// decodeTextResult reads a result whose blocks are texts without annotations or
// _meta, and that has no members we do not know. For any other, and for one with
// a fault, it returns nil.
func decodeTextResult(raw []byte) *CallToolResult {
	w := workspaces.Get().(*workspace)
	defer w.release()
	s := &w.scanner
	s.data = raw
	r := new(textResult)
	s.space()
	if !s.at('{') || !s.members(plainObject, func(name []byte) bool { return s.resultMember(name, r) }) || !s.end() || r.Content == nil {
		return nil
	}
	return &r.CallToolResult
}

// at reports whether c comes next.
func (s *scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

// resultMember walks the value of one member of a result.
func (s *scanner) resultMember(name []byte, r *textResult) bool {
	switch string(name) {
	case "content":
		r.Content = r.block[:0]
		return s.at('[') && s.items(func() bool { return s.textBlock(r) })
	case "structuredContent":
		start := s.pos
		ok := s.value(plainObject)
		r.StructuredContent = bytes.Clone(s.data[start:s.pos])
		return ok
	case "isError":
		r.IsError = s.at('t')
		return (s.at('t') || s.at('f')) && s.value(plainObject)
	case "resultType":
		text, ok := s.text()
		r.ResultType = internResultType(text)
		return ok
	case "_meta":
		r.Meta = make(Meta)
		return s.at('{') && s.members(plainObject, func(name []byte) bool { return s.metaMember(name, r.Meta) })
	}
	return false
}

// metaMember walks the value of one member of _meta.
func (s *scanner) metaMember(name []byte, m Meta) bool {
	start := s.pos
	if !s.value(plainObject) {
		return false
	}
	key := MetaServerInfo // every result of 2026-07-28 has it (META-06)
	if string(name) != key {
		key = string(name)
	}
	m[key] = bytes.Clone(s.data[start:s.pos])
	return true
}

// textBlock walks a block of content that has a type and a text and nothing else.
func (s *scanner) textBlock(r *textResult) bool {
	var typ, text []byte
	ok := s.at('{') && s.members(plainObject, func(name []byte) (ok bool) {
		switch string(name) {
		case "type":
			typ, ok = s.text()
		case "text":
			text, ok = s.text()
		}
		return ok
	})
	if !ok || string(typ) != TypeText || text == nil {
		return false
	}
	block := &r.text
	if len(r.Content) > 0 {
		block = new(TextContent)
	}
	block.Text = string(text)
	r.Content = append(r.Content, block)
	return true
}

// text walks a string and returns what it says; not nil if ok.
func (s *scanner) text() (text []byte, ok bool) {
	start := s.pos
	if !s.stringLiteral() {
		return nil, false
	}
	return unquoted(s.data[start:s.pos])
}
