// The words of CQL 5.0, and those of later dialects that laterKeyword of the
// parser lists.
//
// A lexeme that is broken (a string without its end, a stray character) is a
// token too, one that no parser rule takes: the parser then stops where it
// stands, and the error names the first thing wrong in the text.
lexer grammar CqlLexer;

options { caseInsensitive = true; }

// Reserved words: never an identifier.
K_ADD          : 'ADD' ;
K_ALLOW        : 'ALLOW' ;
K_ALTER        : 'ALTER' ;
K_AND          : 'AND' ;
K_APPLY        : 'APPLY' ;
K_ASC          : 'ASC' ;
K_AUTHORIZE    : 'AUTHORIZE' ;
K_BATCH        : 'BATCH' ;
K_BEGIN        : 'BEGIN' ;
K_BY           : 'BY' ;
K_COLUMNFAMILY : 'TABLE' | 'COLUMNFAMILY' ;
K_CREATE       : 'CREATE' ;
K_DELETE       : 'DELETE' ;
K_DESC         : 'DESC' ;
K_DESCRIBE     : 'DESCRIBE' ;
K_DROP         : 'DROP' ;
K_ENTRIES      : 'ENTRIES' ;
K_EXECUTE      : 'EXECUTE' ;
K_FROM         : 'FROM' ;
K_FULL         : 'FULL' ;
K_GRANT        : 'GRANT' ;
K_IF           : 'IF' ;
K_IN           : 'IN' ;
K_INDEX        : 'INDEX' ;
K_INSERT       : 'INSERT' ;
K_INTO         : 'INTO' ;
K_IS           : 'IS' ;
K_KEYSPACE     : 'KEYSPACE' ;
K_LIMIT        : 'LIMIT' ;
K_MATERIALIZED : 'MATERIALIZED' ;
K_MODIFY       : 'MODIFY' ;
K_NORECURSIVE  : 'NORECURSIVE' ;
K_NOT          : 'NOT' ;
K_NULL         : 'NULL' ;
K_OF           : 'OF' ;
K_ON           : 'ON' ;
K_OR           : 'OR' ;
K_ORDER        : 'ORDER' ;
K_PRIMARY      : 'PRIMARY' ;
K_RENAME       : 'RENAME' ;
K_REVOKE       : 'REVOKE' ;
K_SCHEMA       : 'SCHEMA' ;
K_SELECT       : 'SELECT' ;
K_SET          : 'SET' ;
K_TO           : 'TO' ;
K_TOKEN        : 'TOKEN' ;
K_TRUNCATE     : 'TRUNCATE' ;
K_UNLOGGED     : 'UNLOGGED' ;
K_UPDATE       : 'UPDATE' ;
K_USE          : 'USE' ;
K_USING        : 'USING' ;
K_VIEW         : 'VIEW' ;
K_WHERE        : 'WHERE' ;
K_WITH         : 'WITH' ;
K_POSITIVE_NAN      : 'NAN' ;
K_NEGATIVE_NAN      : '-NAN' ;
K_POSITIVE_INFINITY : 'INFINITY' ;
K_NEGATIVE_INFINITY : '-INFINITY' ;
BOOLEAN        : 'TRUE' | 'FALSE' ;

// Keywords that may also be identifiers.
K_ACCESS        : 'ACCESS' ;
K_AGGREGATE     : 'AGGREGATE' ;
K_AGGREGATES    : 'AGGREGATES' ;
K_ALL           : 'ALL' ;
K_ANN           : 'ANN' ;
K_AS            : 'AS' ;
K_BETWEEN       : 'BETWEEN' ;
K_CALLED        : 'CALLED' ;
K_CAST          : 'CAST' ;
K_CHECK         : 'CHECK' ;
K_CIDRS         : 'CIDRS' ;
K_CLUSTER       : 'CLUSTER' ;
K_CLUSTERING    : 'CLUSTERING' ;
K_COLUMN        : 'COLUMN' ;
K_COMMENT       : 'COMMENT' ;
K_COMMENTS      : 'COMMENTS' ;
K_COMPACT       : 'COMPACT' ;
K_CONTAINS      : 'CONTAINS' ;
K_COUNT         : 'COUNT' ;
K_CUSTOM        : 'CUSTOM' ;
K_DATACENTERS   : 'DATACENTERS' ;
K_DEFAULT       : 'DEFAULT' ;
K_DISTINCT      : 'DISTINCT' ;
K_EXISTS        : 'EXISTS' ;
K_FIELD         : 'FIELD' ;
K_FILTERING     : 'FILTERING' ;
K_FINALFUNC     : 'FINALFUNC' ;
K_FOR           : 'FOR' ;
K_FROZEN        : 'FROZEN' ;
K_FUNCTION      : 'FUNCTION' ;
K_FUNCTIONS     : 'FUNCTIONS' ;
K_GENERATED     : 'GENERATED' ;
K_GROUP         : 'GROUP' ;
K_HASHED        : 'HASHED' ;
K_IDENTITY      : 'IDENTITY' ;
K_ILIKE         : 'ILIKE' ;
K_INDEXES       : 'INDEXES' ;
K_INITCOND      : 'INITCOND' ;
K_INPUT         : 'INPUT' ;
K_INTERNALS     : 'INTERNALS' ;
K_JSON          : 'JSON' ;
K_KEY           : 'KEY' ;
K_KEYS          : 'KEYS' ;
K_KEYSPACES     : 'KEYSPACES' ;
K_LABEL         : 'LABEL' ;
K_LABELS        : 'LABELS' ;
K_LANGUAGE      : 'LANGUAGE' ;
K_LIKE          : 'LIKE' ;
K_LIST          : 'LIST' ;
K_LOGIN         : 'LOGIN' ;
K_MAP           : 'MAP' ;
K_MASKED        : 'MASKED' ;
K_MAXWRITETIME  : 'MAXWRITETIME' ;
K_MBEAN         : 'MBEAN' ;
K_MBEANS        : 'MBEANS' ;
K_MUTATION_FRAGMENTS : 'MUTATION_FRAGMENTS' ;
K_NOLOGIN       : 'NOLOGIN' ;
K_NOSUPERUSER   : 'NOSUPERUSER' ;
K_OFFSET        : 'OFFSET' ;
K_ONLY          : 'ONLY' ;
K_OPTIONS       : 'OPTIONS' ;
K_PARTITION     : 'PARTITION' ;
K_PASSWORD      : 'PASSWORD' ;
K_PER           : 'PER' ;
K_PERMISSION    : 'PERMISSION' ;
K_PERMISSIONS   : 'PERMISSIONS' ;
K_PURGE         : 'PURGE' ;
K_REPLACE       : 'REPLACE' ;
K_RETURNS       : 'RETURNS' ;
K_ROLE          : 'ROLE' ;
K_ROLES         : 'ROLES' ;
K_SECURITY      : 'SECURITY' ;
K_SELECT_MASKED : 'SELECT_MASKED' ;
K_SFUNC         : 'SFUNC' ;
K_STATIC        : 'STATIC' ;
K_STORAGE       : 'STORAGE' ;
K_STYPE         : 'STYPE' ;
K_SUPERUSER     : 'SUPERUSER' ;
K_SUPERUSERS    : 'SUPERUSERS' ;
K_TABLES        : 'TABLES' | 'COLUMNFAMILIES' ;
K_TIMEOUT       : 'TIMEOUT' ;
K_TRIGGER       : 'TRIGGER' ;
K_TTL           : 'TTL' ;
K_TUPLE         : 'TUPLE' ;
K_TYPE          : 'TYPE' ;
K_TYPES         : 'TYPES' ;
K_UNDROP        : 'UNDROP' ;
K_UNMASK        : 'UNMASK' ;
K_UNSET         : 'UNSET' ;
K_USER          : 'USER' ;
K_USERS         : 'USERS' ;
K_VALUES        : 'VALUES' ;
K_VECTOR        : 'VECTOR' ;
K_WRITETIME     : 'WRITETIME' ;

// Names of native types; they may also be identifiers.
K_ASCII     : 'ASCII' ;
K_BIGINT    : 'BIGINT' ;
K_BLOB      : 'BLOB' ;
K_BOOLEAN   : 'BOOLEAN' ;
K_COUNTER   : 'COUNTER' ;
K_DATE      : 'DATE' ;
K_DECIMAL   : 'DECIMAL' ;
K_DOUBLE    : 'DOUBLE' ;
K_DURATION  : 'DURATION' ;
K_FLOAT     : 'FLOAT' ;
K_INET      : 'INET' ;
K_INT       : 'INT' ;
K_SMALLINT  : 'SMALLINT' ;
K_TEXT      : 'TEXT' ;
K_TIME      : 'TIME' ;
K_TIMESTAMP : 'TIMESTAMP' ;
K_TIMEUUID  : 'TIMEUUID' ;
K_TINYINT   : 'TINYINT' ;
K_UUID      : 'UUID' ;
K_VARCHAR   : 'VARCHAR' ;
K_VARINT    : 'VARINT' ;

// Punctuation.
SEMICOLON  : ';' ;
COMMA      : ',' ;
COLON      : ':' ;
DOT        : '.' ;
RANGE      : '..' ;
QMARK      : '?' ;
LPAREN     : '(' ;
RPAREN     : ')' ;
LBRACKET   : '[' ;
RBRACKET   : ']' ;
LBRACE     : '{' ;
RBRACE     : '}' ;
EQ         : '=' ;
NEQ        : '!=' ;
LT         : '<' ;
LTE        : '<=' ;
GT         : '>' ;
GTE        : '>=' ;
PLUS       : '+' ;
MINUS      : '-' ;
STAR       : '*' ;
SLASH      : '/' ;
PERCENT    : '%' ;
PLUS_EQ    : '+=' ;
MINUS_EQ   : '-=' ;
EXPR_LPAREN options { caseInsensitive = false; } : 'expr(' ;

// Literals. The order matters where two of them match the same text.
STRING_LITERAL
    : '\'' ( ~'\'' | '\'\'' )* '\''
    | '$$' ( ~'$' | '$' ~'$' )* '$$'
    ;

UUID : HEX8 '-' HEX4 '-' HEX4 '-' HEX4 '-' HEX4 HEX8 ;

HEXNUMBER : '0X' HEX* ;

INTEGER : '-'? DIGIT+ ;

// "1..2" is two integers and a range, so a float may not end in a point that
// begins a range; "1...2" is a float, a range and an integer.
FLOAT
    : '-'? DIGIT+ '.' DIGIT+ EXPONENT?
    | '-'? DIGIT+ EXPONENT
    | '-'? DIGIT+ '.' EXPONENT
    | '-'? DIGIT+ '.' { p.GetInputStream().LA(1) != '.' || p.GetInputStream().LA(2) == '.' }?
    ;

DURATION : '-'? DIGIT+ DURATION_UNIT ( DIGIT+ DURATION_UNIT )* ;

// The ISO 8601 forms are upper case only, or p1d could not be a name.
ISO_DURATION options { caseInsensitive = false; }
    : '-'? 'P' D D D D '-' D D '-' D D 'T' D D ':' D D ':' D D
    | '-'? 'P' ISO_TIME
    | '-'? 'P' D+ 'W'
    | '-'? 'P' ISO_PERIOD ISO_TIME?
    ;

IDENT : LETTER ( LETTER | DIGIT | '_' )* ;

QUOTED_NAME       : '"' ( ~'"' | '""' )+ '"' ;
EMPTY_QUOTED_NAME : '""' ;

WHITESPACE   : [ \t\r\n]+ -> skip ;
LINE_COMMENT : ( '--' | '//' ) ~[\r\n]* [\r\n] -> skip ;
COMMENT      : '/*' ( ~'*' | '*'+ ~[*/] )* '*'+ '/' -> skip ;

// Broken lexemes; each is one character shorter than its whole form.
UNTERMINATED_STRING  : '\'' ( ~'\'' | '\'\'' )* ;
UNTERMINATED_DOLLAR  : '$$' ( ~'$' | '$' ~'$' )* '$'? ;
UNTERMINATED_NAME    : '"' ( ~'"' | '""' )* ;
UNTERMINATED_LINE    : ( '--' | '//' ) ~[\r\n]* ;
UNTERMINATED_COMMENT : '/*' ( ~'*' | '*'+ ~[*/] )* '*'* ;
UNEXPECTED_CHARACTER : . ;

fragment DIGIT    : [0-9] ;
fragment LETTER   : [A-Z] ;
fragment HEX      : [0-9A-F] ;
fragment HEX4     : HEX HEX HEX HEX ;
fragment HEX8     : HEX4 HEX4 ;
fragment EXPONENT : 'E' [+-]? DIGIT+ ;

fragment DURATION_UNIT : 'Y' | 'MO' | 'W' | 'D' | 'H' | 'M' | 'S' | 'MS' | 'US' | '\u00B5S' | 'NS' ;

fragment D options { caseInsensitive = false; } : [0-9] ;
fragment ISO_PERIOD options { caseInsensitive = false; }
    : D+ 'Y' ( D+ 'M' )? ( D+ 'D' )?
    | D+ 'M' ( D+ 'D' )?
    | D+ 'D'
    ;
fragment ISO_TIME options { caseInsensitive = false; }
    : 'T' D+ 'H' ( D+ 'M' )? ( D+ 'S' )?
    | 'T' D+ 'M' ( D+ 'S' )?
    | 'T' D+ 'S'
    ;
