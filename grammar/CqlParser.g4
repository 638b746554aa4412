// The statements of CQL 5.0 (CQL 3.4.7), and extensions: of Cassandra 6
// (BETWEEN, NOT IN, NOT CONTAINS, CHECK, NOT NULL, LIKE of tables, COMMENT ON), of
// ScyllaDB (USING TIMEOUT) and of SQL (OR, OFFSET, ILIKE, DEFAULT of columns).
//
// Written for speed of the ALL(*) parser: common prefixes are factored out, so
// that nearly every decision needs one token; identifiers are one flat rule;
// FOLLOW of term has no '+' in it, so that its loop is decided by one token
// (assignmentValue, where a '+' may follow, has a loop of its own).
// cql turns the parse tree into its AST and refuses what only looks right.
parser grammar CqlParser;

options { tokenVocab = CqlLexer; }

root : statement SEMICOLON* EOF ;

statement
    : selectStatement
    | insert
    | update
    | delete
    | batch
    | use
    | truncate
    | create
    | alter
    | drop
    | grant
    | revoke
    | list
    | addIdentity
    | describe
    | commentOn
    | securityLabelOn
    | undropTable
    | purgeTable
    | undropKeyspace
    | purgeKeyspace
    ;

create
    : K_CREATE
      ( createKeyspace
      | createTable
      | createType
      | createIndex
      | createMaterializedView
      | createFunction
      | createAggregate
      | createTrigger
      | createRole
      | createUser
      )
    ;

alter
    : K_ALTER
      ( alterKeyspace
      | alterTable
      | alterType
      | alterMaterializedView
      | alterRole
      | alterUser
      )
    ;

drop
    : K_DROP
      ( dropKeyspace
      | dropTable
      | dropType
      | dropIndex
      | dropMaterializedView
      | dropFunction
      | dropAggregate
      | dropTrigger
      | dropRole
      | dropUser
      | dropIdentity
      )
    ;

// ---- Data ----

use : K_USE ident ;

truncate : K_TRUNCATE K_COLUMNFAMILY? tableName timeoutClause? ;

selectStatement
    : K_SELECT K_JSON? K_DISTINCT? selectColumns K_FROM ( K_MUTATION_FRAGMENTS LPAREN tableName RPAREN | tableName )
      whereClause? groupBy? orderBy? perPartitionLimit? limit? offset? allowFiltering? timeoutClause?
    ;

selectColumns
    : STAR
    | selectColumn ( COMMA selectColumn )*
    ;

selectColumn : selector ( K_AS ident )? ;

groupBy : K_GROUP K_BY selector ( COMMA selector )* ;

orderBy : K_ORDER K_BY ordering ( COMMA ordering )* ;

ordering : columnName ( K_ANN K_OF term )? ( K_ASC | K_DESC )? ;

perPartitionLimit : K_PER K_PARTITION K_LIMIT integerValue ;

limit : K_LIMIT integerValue ;

offset : K_OFFSET integerValue ;

allowFiltering : K_ALLOW K_FILTERING ;

insert
    : K_INSERT K_INTO tableName
      ( columnNames K_VALUES LPAREN terms RPAREN
      | K_JSON jsonValue ( K_DEFAULT ( K_NULL | K_UNSET ) )?
      )
      ifNotExists? usingClause?
    ;

jsonValue
    : STRING_LITERAL
    | marker
    ;

update
    : K_UPDATE tableName usingClause?
      K_SET assignment ( COMMA assignment )*
      whereClause ifClause?
    ;

delete
    : K_DELETE ( deleteTarget ( COMMA deleteTarget )* )?
      K_FROM tableName deleteUsing?
      whereClause ifClause?
    ;

deleteTarget : columnName ( LBRACKET term RBRACKET | DOT ident )? ;

batch
    : K_BEGIN ( K_UNLOGGED | K_COUNTER )? K_BATCH usingClause?
      ( batchStatement SEMICOLON? )*
      K_APPLY K_BATCH
    ;

batchStatement
    : insert
    | update
    | delete
    ;

usingClause : K_USING usingOption ( K_AND usingOption )* ;

usingOption
    : usingTimestamp
    | K_TTL integerValue
    | usingTimeout
    ;

deleteUsing : K_USING ( usingTimestamp | usingTimeout ) ( K_AND ( usingTimestamp | usingTimeout ) )* ;

usingTimestamp : K_TIMESTAMP integerValue ;

usingTimeout : K_TIMEOUT ( DURATION | ISO_DURATION | marker ) ;

timeoutClause : K_USING usingTimeout ;

assignment
    : columnName
      ( EQ assignmentValue
      | PLUS_EQ term
      | MINUS_EQ term
      | LBRACKET term RBRACKET EQ term
      | DOT ident EQ term
      )
    ;

// The integer of "c = c -1" carries its sign.
assignmentValue
    : product ( ( PLUS | MINUS ) product )* ( PLUS columnName )?
    | columnName ( PLUS | MINUS ) term
    | columnName INTEGER
    ;

ifClause : K_IF ( K_EXISTS | condition ( K_AND condition )* ) ;

condition
    : columnName ( LBRACKET term RBRACKET | DOT ident )?
      ( operator term
      | K_IN inValues
      )
    | columnName K_CONTAINS K_KEY? term
    ;

// ---- Relations ----

// AND binds more tightly than OR; package cql groups the relations.
whereClause : K_WHERE ( relation | indexExpression ) ( ( K_AND | K_OR ) ( relation | indexExpression ) )* ;

indexExpression : EXPR_LPAREN ident COMMA term RPAREN ;

relation
    : columnName
      ( operator term
      | K_BETWEEN term K_AND term
      | ( K_LIKE | K_ILIKE ) term
      | K_IS K_NOT K_NULL
      | K_NOT? K_IN inValues
      | K_NOT? K_CONTAINS K_KEY? term
      | LBRACKET term RBRACKET operator term
      )
    | K_TOKEN columnNames ( operator term | K_BETWEEN term K_AND term )
    | columnNames
      ( operator tupleValue
      | K_NOT? K_IN tupleInValues
      | K_BETWEEN tupleValue K_AND tupleValue
      )
    | LPAREN ( relation | indexExpression ) ( ( K_AND | K_OR ) ( relation | indexExpression ) )* RPAREN
    ;

operator : EQ | LT | LTE | GT | GTE | NEQ ;

columnNames : LPAREN columnName ( COMMA columnName )* RPAREN ;

inValues
    : LPAREN terms? RPAREN
    | marker
    ;

tupleValue
    : LPAREN terms RPAREN
    | marker
    ;

tupleInValues
    : LPAREN ( tupleValue ( COMMA tupleValue )* )? RPAREN
    | marker
    ;

// ---- Terms ----

terms : term ( COMMA term )* ;

term : product ( ( PLUS | MINUS ) product )* ;

product : simpleTerm ( ( STAR | SLASH | PERCENT ) simpleTerm )* ;

// Literals and markers stand here themselves, not as rules of their own: they
// are most of what is parsed.
simpleTerm
    : ( STRING_LITERAL | INTEGER | FLOAT | BOOLEAN | DURATION | ISO_DURATION | UUID | HEXNUMBER
      | K_NULL | K_POSITIVE_NAN | K_NEGATIVE_NAN | K_POSITIVE_INFINITY | K_NEGATIVE_INFINITY
      )
    | QMARK
    | COLON ident
    | functionName LPAREN terms? RPAREN
    | K_CAST LPAREN simpleTerm K_AS nativeType RPAREN
    | LPAREN dataType RPAREN simpleTerm
    | LPAREN terms RPAREN
    | LBRACKET terms? RBRACKET
    | LBRACE udtField ( COMMA udtField )* RBRACE
    | LBRACE mapEntry ( COMMA mapEntry )* RBRACE
    | LBRACE terms? RBRACE
    | MINUS simpleTerm
    ;

udtField : ident COLON term ;

mapEntry : term COLON term ;

constant
    : STRING_LITERAL
    | INTEGER
    | FLOAT
    | BOOLEAN
    | DURATION
    | ISO_DURATION
    | UUID
    | HEXNUMBER
    | K_NULL
    | K_POSITIVE_NAN
    | K_NEGATIVE_NAN
    | K_POSITIVE_INFINITY
    | K_NEGATIVE_INFINITY
    ;

integerValue
    : INTEGER
    | marker
    ;

marker
    : QMARK
    | COLON ident
    ;

// ---- Selectors ----

selector : selectorProduct ( ( PLUS | MINUS ) selectorProduct )* ;

selectorProduct : selectorUnary ( ( STAR | SLASH | PERCENT ) selectorUnary )* ;

selectorUnary
    : MINUS selectorUnary
    | simpleSelector selectorModifier*
    ;

selectorModifier
    : DOT ident
    | LBRACKET ( term ( RANGE term? )? | RANGE term ) RBRACKET
    ;

simpleSelector
    : ident
    | constant
    | marker
    | K_COUNT LPAREN STAR RPAREN
    | ( K_WRITETIME | K_MAXWRITETIME | K_TTL )
      LPAREN ident selectorModifier* RPAREN
    | K_CAST LPAREN selector K_AS nativeType RPAREN
    | functionName LPAREN selectors? RPAREN
    | LPAREN dataType RPAREN simpleSelector
    | LPAREN selectors RPAREN
    | LBRACKET selectors? RBRACKET
    | LBRACE mapSelectorEntry ( COMMA mapSelectorEntry )* RBRACE
    | LBRACE selectors? RBRACE
    ;

mapSelectorEntry : selector COLON selector ;

selectors : selector ( COMMA selector )* ;

// ---- Keyspaces and tables ----

keyspaceKeyword
    : K_KEYSPACE
    | K_SCHEMA
    ;

createKeyspace : keyspaceKeyword ifNotExists? ident K_WITH properties ;

alterKeyspace : keyspaceKeyword ifExists? ident K_WITH properties ;

dropKeyspace : keyspaceKeyword ifExists? ident ;

createTable
    : K_COLUMNFAMILY ifNotExists? tableName
      ( LPAREN tableElement ( COMMA tableElement? )* RPAREN
        ( K_WITH tableOption ( K_AND tableOption )* )?
      | K_LIKE tableName ( K_WITH likeOption ( K_AND likeOption )* )?
      )
    ;

likeOption
    : property
    | K_INDEXES
    | K_COMMENTS
    | K_SECURITY K_LABELS
    ;

tableElement
    : ident dataType K_STATIC? ( K_NOT K_NULL )? columnMask? columnConstraints? columnDefault? ( K_PRIMARY K_KEY )?
    | primaryKey
    ;

columnConstraints : K_CHECK columnConstraint ( K_AND columnConstraint )* ;

// A comparison of the column, or a function with or without one.
columnConstraint
    : K_NOT K_NULL
    | ident ( LPAREN terms? RPAREN )? ( operator constant )?
    ;

columnDefault : K_DEFAULT term ;

primaryKey : K_PRIMARY K_KEY LPAREN partitionKey ( COMMA ident )* RPAREN ;

partitionKey
    : ident
    | LPAREN ident ( COMMA ident )* RPAREN
    ;

columnMask : K_MASKED K_WITH ( K_DEFAULT | functionName LPAREN terms? RPAREN ) ;

tableOption
    : property
    | K_COMPACT K_STORAGE
    | K_CLUSTERING K_ORDER K_BY LPAREN clusteringOrder ( COMMA clusteringOrder )* RPAREN
    ;

clusteringOrder : ident ( K_ASC | K_DESC ) ;

properties : property ( K_AND property )* ;

property : ident EQ propertyValue ;

propertyValue
    : constant
    | keyword
    | LBRACE ( mapEntry ( COMMA mapEntry )* )? RBRACE
    ;

alterTable
    : K_COLUMNFAMILY ifExists? tableName
      ( K_ALTER ifExists? columnName ( K_TYPE dataType | columnMask | columnConstraints | K_SET columnDefault | K_DROP ( K_MASKED | K_CHECK | K_DEFAULT ) )
      | K_ADD ifNotExists? ( addedColumn | LPAREN addedColumn ( COMMA addedColumn )* RPAREN )
      | K_DROP K_COMPACT K_STORAGE
      | K_DROP ifExists? ( ident | LPAREN ident ( COMMA ident )* RPAREN ) ( K_USING K_TIMESTAMP INTEGER )?
      | ( K_UNDROP | K_PURGE ) ( ident | LPAREN ident ( COMMA ident )* RPAREN )
      | K_RENAME ifExists? rename ( K_AND rename )*
      | K_WITH properties
      )
    ;

addedColumn : ident dataType K_STATIC? columnMask? columnConstraints? columnDefault? ;

rename : ident K_TO ident ;

dropTable : K_COLUMNFAMILY ifExists? tableName ;

// Extensions: Cassandra cannot restore a dropped table or keyspace.
undropTable : K_UNDROP K_COLUMNFAMILY tableName ( K_AS ident )? ( K_WITH properties )? ;

purgeTable : K_PURGE K_COLUMNFAMILY ifExists? tableName ( K_WITH properties )? ;

undropKeyspace : K_UNDROP keyspaceKeyword ident ( K_AS ident )? ( K_WITH properties )? ;

purgeKeyspace : K_PURGE keyspaceKeyword ifExists? ident ( K_WITH properties )? ;

commentOn : K_COMMENT K_ON commented K_IS ( STRING_LITERAL | K_NULL ) ;

securityLabelOn : K_SECURITY K_LABEL ( K_FOR ident )? K_ON commented K_IS ( STRING_LITERAL | K_NULL ) ;

// An object that has a comment or a security label.
commented
    : keyspaceKeyword ident
    | K_COLUMNFAMILY tableName
    | K_COLUMN memberName
    | K_TYPE typeName
    | K_FIELD memberName
    ;

// A column of a table, or a field of a type.
memberName : ident DOT ident ( DOT ident )? ;


createMaterializedView
    : K_MATERIALIZED K_VIEW ifNotExists? tableName
      K_AS K_SELECT selectColumns K_FROM tableName whereClause?
      primaryKey
      ( K_WITH tableOption ( K_AND tableOption )* )?
    ;

alterMaterializedView : K_MATERIALIZED K_VIEW ifExists? tableName K_WITH properties ;

dropMaterializedView : K_MATERIALIZED K_VIEW ifExists? tableName ;

// ---- Types, indexes, functions, triggers ----

createType
    : K_TYPE ifNotExists? typeName
      LPAREN fieldDefinition ( COMMA fieldDefinition? )* RPAREN
    ;

fieldDefinition : ident dataType ;

alterType
    : K_TYPE ifExists? typeName
      ( K_ALTER ident K_TYPE dataType
      | K_ADD ifNotExists? fieldDefinition
      | K_RENAME ifExists? rename ( K_AND rename )*
      )
    ;

dropType : K_TYPE ifExists? typeName ;

createIndex
    : K_CUSTOM? K_INDEX ifNotExists? ident? K_ON tableName
      LPAREN ( indexTarget ( COMMA indexTarget )* )? RPAREN
      ( K_USING STRING_LITERAL )?
      ( K_WITH properties )?
    ;

indexTarget
    : columnName
    | ( K_VALUES | K_KEYS | K_ENTRIES | K_FULL ) LPAREN columnName RPAREN
    ;

dropIndex : K_INDEX ifExists? tableName ;

createFunction
    : ( K_OR K_REPLACE )? K_FUNCTION ifNotExists? functionName
      LPAREN ( fieldDefinition ( COMMA fieldDefinition )* )? RPAREN
      ( K_CALLED | K_RETURNS K_NULL ) K_ON K_NULL K_INPUT
      K_RETURNS dataType
      K_LANGUAGE IDENT
      K_AS STRING_LITERAL
    ;

dropFunction : K_FUNCTION ifExists? functionName argumentTypes? ;

argumentTypes : LPAREN ( dataType ( COMMA dataType )* )? RPAREN ;

createAggregate
    : ( K_OR K_REPLACE )? K_AGGREGATE ifNotExists? functionName argumentTypes
      K_SFUNC functionIdent
      K_STYPE dataType
      ( K_FINALFUNC functionIdent )?
      ( K_INITCOND term )?
    ;

dropAggregate : K_AGGREGATE ifExists? functionName argumentTypes? ;

createTrigger : K_TRIGGER ifNotExists? ident K_ON tableName K_USING STRING_LITERAL ;

dropTrigger : K_TRIGGER ifExists? ident K_ON tableName ;

// ---- Roles and permissions ----

createRole : K_ROLE ifNotExists? roleName ( K_WITH roleOption ( K_AND roleOption )* )? ;

alterRole : K_ROLE ifExists? roleName ( K_WITH roleOption ( K_AND roleOption )* )? ;

dropRole : K_ROLE ifExists? roleName ;

roleOption
    : K_PASSWORD EQ STRING_LITERAL
    | K_HASHED K_PASSWORD EQ STRING_LITERAL
    | K_GENERATED K_PASSWORD
    | K_OPTIONS EQ LBRACE ( mapEntry ( COMMA mapEntry )* )? RBRACE
    | K_SUPERUSER EQ BOOLEAN
    | K_LOGIN EQ BOOLEAN
    | K_ACCESS K_TO ( K_ALL K_DATACENTERS | K_DATACENTERS stringSet )
    | K_ACCESS K_FROM ( K_ALL K_CIDRS | K_CIDRS stringSet )
    ;

stringSet : LBRACE STRING_LITERAL ( COMMA STRING_LITERAL )* RBRACE ;

createUser : K_USER ifNotExists? userName userPassword? ( K_SUPERUSER | K_NOSUPERUSER )? ;

alterUser : K_USER ifExists? userName userPassword? ( K_SUPERUSER | K_NOSUPERUSER )? ;

dropUser : K_USER ifExists? userName ;

userPassword : K_WITH ( K_HASHED? K_PASSWORD STRING_LITERAL | K_GENERATED K_PASSWORD ) ;

addIdentity : K_ADD K_IDENTITY ifNotExists? userName K_TO K_ROLE userName ;

dropIdentity : K_IDENTITY ifExists? userName ;

grant
    : K_GRANT
      ( permissions K_ON resource K_TO roleName
      | roleName K_TO roleName
      )
    ;

revoke
    : K_REVOKE
      ( permissions K_ON resource K_FROM roleName
      | roleName K_FROM roleName
      )
    ;

list
    : K_LIST
      ( K_ROLES ( K_OF roleName )? K_NORECURSIVE?
      | K_USERS
      | K_SUPERUSERS
      | permissions ( K_ON resource )? ( K_OF roleName )? K_NORECURSIVE?
      )
    ;

permissions
    : K_ALL K_PERMISSIONS?
    | permission K_PERMISSION? ( COMMA permission K_PERMISSION? )*
    ;

permission
    : K_CREATE
    | K_ALTER
    | K_DROP
    | K_SELECT
    | K_MODIFY
    | K_AUTHORIZE
    | K_DESCRIBE
    | K_EXECUTE
    | K_UNMASK
    | K_SELECT_MASKED
    ;

resource
    : K_ALL K_KEYSPACES
    | K_ALL K_TABLES K_IN keyspaceKeyword ident
    | K_ALL K_ROLES
    | K_ALL K_FUNCTIONS ( K_IN keyspaceKeyword ident )?
    | K_ALL K_MBEANS
    | keyspaceKeyword ident
    | K_ROLE roleName
    | K_FUNCTION functionName argumentTypes
    | K_MBEAN STRING_LITERAL
    | K_MBEANS STRING_LITERAL
    | K_COLUMNFAMILY? tableName
    ;

// ---- DESCRIBE ----

// Where a keyword could also be a name, the keyword comes first.
describe
    : ( K_DESCRIBE | K_DESC )
      ( K_CLUSTER
      | K_FULL? K_SCHEMA
      | K_KEYSPACES
      | K_ONLY? K_KEYSPACE ident?
      | K_TABLES
      | K_COLUMNFAMILY tableName
      | K_INDEX tableName
      | K_MATERIALIZED K_VIEW tableName
      | K_TYPES
      | K_TYPE typeName
      | K_FUNCTIONS
      | K_FUNCTION functionName
      | K_AGGREGATES
      | K_AGGREGATE functionName
      | tableName
      )
      ( K_WITH K_INTERNALS )?
    ;

// ---- Types ----

dataType
    : nativeType
    | ( K_LIST | K_SET ) LT dataType GT
    | K_MAP LT dataType COMMA dataType GT
    | K_TUPLE LT dataType ( COMMA dataType )* GT
    | K_VECTOR LT dataType COMMA INTEGER GT
    | K_FROZEN LT dataType GT
    | typeName
    | STRING_LITERAL
    ;

// ---- Names ----

ifNotExists : K_IF K_NOT K_EXISTS ;

ifExists : K_IF K_EXISTS ;

tableName : ident ( DOT ident )? ;

typeName : ( ident DOT )? typeIdent ;

functionName : ( ident DOT )? functionIdent ;

roleName
    : ident
    | STRING_LITERAL
    ;

userName
    : IDENT
    | STRING_LITERAL
    | QUOTED_NAME
    | laterKeyword
    ;

ident
    : IDENT
    | QUOTED_NAME
    | keyword
    ;

// A column may bear the empty name, a relic of Thrift.
columnName
    : IDENT
    | QUOTED_NAME
    | EMPTY_QUOTED_NAME
    | keyword
    ;

typeIdent
    : IDENT
    | QUOTED_NAME
    | basicKeyword
    | K_KEY
    ;

functionIdent
    : IDENT
    | QUOTED_NAME
    | basicKeyword
    | nativeType
    | K_TOKEN
    | K_COUNT
    ;

keyword
    : basicKeyword
    | nativeType
    | K_TTL
    | K_COUNT
    | K_WRITETIME
    | K_MAXWRITETIME
    | K_KEY
    | K_CAST
    | K_JSON
    | K_DISTINCT
    ;

// Words that are no keywords of Cassandra 5.
laterKeyword
    : K_BETWEEN
    | K_CHECK
    | K_COLUMN
    | K_COMMENT
    | K_COMMENTS
    | K_FIELD
    | K_FOR
    | K_GENERATED
    | K_ILIKE
    | K_INDEXES
    | K_LABEL
    | K_LABELS
    | K_MUTATION_FRAGMENTS
    | K_OFFSET
    | K_PURGE
    | K_SECURITY
    | K_SUPERUSERS
    | K_TIMEOUT
    | K_UNDROP
    ;

basicKeyword
    : laterKeyword
    | K_ACCESS
    | K_AGGREGATE
    | K_AGGREGATES
    | K_ALL
    | K_ANN
    | K_AS
    | K_CALLED
    | K_CIDRS
    | K_CLUSTER
    | K_CLUSTERING
    | K_COMPACT
    | K_CONTAINS
    | K_CUSTOM
    | K_DATACENTERS
    | K_DEFAULT
    | K_EXISTS
    | K_FILTERING
    | K_FINALFUNC
    | K_FROZEN
    | K_FUNCTION
    | K_FUNCTIONS
    | K_GROUP
    | K_HASHED
    | K_IDENTITY
    | K_INITCOND
    | K_INPUT
    | K_INTERNALS
    | K_KEYS
    | K_KEYSPACES
    | K_LANGUAGE
    | K_LIKE
    | K_LIST
    | K_LOGIN
    | K_MAP
    | K_MASKED
    | K_MBEAN
    | K_MBEANS
    | K_NOLOGIN
    | K_NOSUPERUSER
    | K_ONLY
    | K_OPTIONS
    | K_PARTITION
    | K_PASSWORD
    | K_PER
    | K_PERMISSION
    | K_PERMISSIONS
    | K_REPLACE
    | K_RETURNS
    | K_ROLE
    | K_ROLES
    | K_SELECT_MASKED
    | K_SFUNC
    | K_STATIC
    | K_STORAGE
    | K_STYPE
    | K_SUPERUSER
    | K_TABLES
    | K_TRIGGER
    | K_TUPLE
    | K_TYPE
    | K_TYPES
    | K_UNMASK
    | K_UNSET
    | K_USER
    | K_USERS
    | K_VALUES
    | K_VECTOR
    ;

nativeType
    : K_ASCII
    | K_BIGINT
    | K_BLOB
    | K_BOOLEAN
    | K_COUNTER
    | K_DATE
    | K_DECIMAL
    | K_DOUBLE
    | K_DURATION
    | K_FLOAT
    | K_INET
    | K_INT
    | K_SMALLINT
    | K_TEXT
    | K_TIME
    | K_TIMESTAMP
    | K_TIMEUUID
    | K_TINYINT
    | K_UUID
    | K_VARCHAR
    | K_VARINT
    ;
