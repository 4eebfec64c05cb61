package streamable

// HasAlarm reports whether the link's own stream, which is parked or over, has a timer of its own.
func (l *Link) HasAlarm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own != nil && l.own.alarm != nil
}
