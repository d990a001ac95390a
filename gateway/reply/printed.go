package reply

import (
	"encoding/base64"
	"strconv"
	"time"

	"dtegate/engine/dte"
)

// Printed returns the answer of GET /dte/pdf?format=base64.
func Printed(code dte.Code, name string, pdf []byte) []byte {
	b := text([]byte(`{"status":"success","data":{"codigoGeneracion":`), code.String())
	b = append(base64.StdEncoding.AppendEncode(append(b, `,"base64":"`...), pdf), `","contentType":"application/pdf","filename":`...)
	return append(text(b, name), `}}`...)
}

// Link returns the answer of GET /dte/pdf?format=url; life is how long the link works.
func Link(code dte.Code, url string, life time.Duration) []byte {
	b := text([]byte(`{"status":"success","data":{"codigoGeneracion":`), code.String())
	b = text(append(b, `,"url":`...), url)
	b = strconv.AppendInt(append(b, `,"expiresIn":`...), int64(life/time.Second), 10)
	b = text(append(b, `,"filename":`...), code.String()+".pdf")
	return append(b, `}}`...)
}
