// Module dte05 computes the credit note (DTE-05).
package main

import "dtegate/plugins/sdk"

// description describes the credit note, which sdk.Note computes.
var description = sdk.NoteDescription("dte05")

func init() { sdk.Register(description, sdk.Note) }

func main() {}
