package main

import "dtegate/plugins/sdk"

// description of the credit note; its arithmetic is sdk.Note.
var description = sdk.NoteDescription("dte05")
