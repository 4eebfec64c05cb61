package mcp

import "encoding/json"

// ProgressParams are the params of notifications/progress.
type ProgressParams struct {
	ProgressToken ProgressToken `json:"progressToken"`
	Progress      float64       `json:"progress"` // grows with each notification
	Total         *float64      `json:"total,omitzero"`
	Message       string        `json:"message,omitzero"` // for people; 2025-03-26 on
	Meta          Meta          `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that there is a token.
func (p *ProgressParams) Validate() error {
	return required(NotificationProgress, "progressToken", !p.ProgressToken.IsZero())
}

// CancelledParams are the params of notifications/cancelled.
type CancelledParams struct {
	RequestID ID     `json:"requestId,omitzero"` // required but in 2025-11-25
	Reason    string `json:"reason,omitzero"`    // for people and logs
	Meta      Meta   `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}
