package rest

import "strings"

// Stops cuts a text that comes in pieces at the first of some sequences, for servers that
// take none of them or not so many. It is for one goroutine.
type Stops struct {
	sequences []string
	held      string // the end of the text so far, which may be the beginning of a sequence
}

// NewStops returns nil if there is no sequence.
func NewStops(sequences []string) *Stops {
	var s Stops
	for _, seq := range sequences {
		if seq != "" {
			s.sequences = append(s.sequences, seq)
		}
	}
	if len(s.sequences) == 0 {
		return nil
	}
	return &s
}

// Add takes the next piece and returns what may be passed on, and whether a sequence
// followed it: then the text is over.
func (s *Stops) Add(piece string) (text string, over bool) {
	if s == nil {
		return piece, false
	}
	all := s.held + piece
	s.held = ""
	first := len(all)
	for _, seq := range s.sequences {
		if i := strings.Index(all, seq); i >= 0 && i < first {
			first, over = i, true
		}
	}
	if over {
		return all[:first], true
	}
	keep := 0
	for _, seq := range s.sequences {
		for n := min(len(seq)-1, len(all)); n > keep; n-- {
			if strings.HasSuffix(all, seq[:n]) {
				keep = n
			}
		}
	}
	s.held = all[len(all)-keep:]
	return all[:len(all)-keep], false
}

// Rest returns what was held back, at the end of a text that was not cut.
func (s *Stops) Rest() string {
	if s == nil {
		return ""
	}
	rest := s.held
	s.held = ""
	return rest
}
