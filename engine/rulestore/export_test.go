package rulestore

// Documents is how many types of document the layouts know.
func (l *Layouts) Documents() int { return len(l.fillers) }
