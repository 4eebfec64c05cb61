package mcp

// IsBatch reports whether the frame is an array: its first byte that is not
// space decides. Only 2025-03-26 has batches.
func IsBatch(frame []byte) bool {
	s := scanner{data: frame}
	s.space()
	return s.pos < len(frame) && frame[s.pos] == '['
}

// ScanBatch checks a whole batch and then calls each with every element, a
// part of the frame, until one returns an error. Nothing is called unless all
// of the array is strict JSON (-32700) and holds 1 to limit elements
// (-32600). Each element is still to be scanned: one bad message does not
// spoil the others.
func ScanBatch(frame []byte, limit int, each func(raw []byte) error) error {
	elements, err := batchElements(frame, limit)
	if err != nil {
		return err
	}
	for _, raw := range elements {
		if err := each(raw); err != nil {
			return err
		}
	}
	return nil
}

func batchElements(frame []byte, limit int) ([][]byte, error) {
	if !IsBatch(frame) {
		return nil, Errorf(CodeInvalidRequest, "invalid message: not a batch")
	}
	var elements [][]byte
	s := scanner{data: frame, depth: -1} // an element nests as deep as it may alone
	s.space()
	ok := s.elements(func(raw []byte) bool {
		elements = append(elements, raw)
		return len(elements) <= limit
	})
	switch {
	case len(elements) > limit:
		return nil, Errorf(CodeInvalidRequest, "invalid message: more than %d messages in a batch", limit)
	case !ok || !s.end():
		return nil, Errorf(CodeParse, "invalid JSON at byte %d: %s", s.pos, s.fault)
	case len(elements) == 0:
		return nil, Errorf(CodeInvalidRequest, "invalid message: an empty batch")
	}
	return elements, nil
}
