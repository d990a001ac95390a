package simulator

// announced refuses a contingency document: it may be sent only once an event that lists it was received (MF2 p.19),
// and no event has been. The caller holds mu.
func (s *Simulator) announced(d *document) *refusal {
	if d.root.object("identificacion").integer("tipoOperacion") == 1 {
		return nil
	}
	return absent("identificacion.tipoContingencia",
		"El documento no figura en ningún evento de contingencia recibido")
}
